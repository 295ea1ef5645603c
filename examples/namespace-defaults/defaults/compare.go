package defaults

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// serverDefaults are the fields within lists that the API server fills in.
var serverDefaults = []string{"default", "defaultRequest", "protocol"}

// suffixes are the suffixes of quantities, with their factors.
var suffixes = map[string]*big.Rat{
	"n": ratio(1, 1e9), "u": ratio(1, 1e6), "m": ratio(1, 1e3), "": ratio(1, 1),
	"k": ratio(1e3, 1), "M": ratio(1e6, 1), "G": ratio(1e9, 1), "T": ratio(1e12, 1), "P": ratio(1e15, 1), "E": ratio(1e18, 1),
	"Ki": ratio(1<<10, 1), "Mi": ratio(1<<20, 1), "Gi": ratio(1<<30, 1), "Ti": ratio(1<<40, 1), "Pi": ratio(1<<50, 1), "Ei": ratio(1<<60, 1),
}

func ratio(numerator, denominator int64) *big.Rat { return big.NewRat(numerator, denominator) }

// Holds says whether a spec already has all wanted fields, as a server-side apply would leave them: lists and selectors
// belong to one manager as a whole, and other fields one by one. Quantities are compared by value, since the API server
// rewrites them.
func Holds(found, wanted map[string]any) bool { return holds(found, wanted, false) }

// holds compares values. If isWhole is set, the found value may have only the wanted fields.
func holds(found, wanted any, isWhole bool) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		found, isMap := found.(map[string]any)
		// The server leaves out empty values.
		if !isMap {
			return len(wanted) == 0
		}
		for name, value := range wanted {
			if !holds(found[name], value, isWhole || strings.HasSuffix(name, "Selector")) {
				return false
			}
		}
		isExpected := func(name string) bool {
			_, isWanted := wanted[name]
			return isWanted || slices.Contains(serverDefaults, name)
		}
		return !isWhole || !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(name string) bool { return !isExpected(name) })
	case []any:
		found, _ := found.([]any)
		if len(found) != len(wanted) {
			return false
		}
		for i := range wanted {
			if !holds(found[i], wanted[i], true) {
				return false
			}
		}
		return true
	case nil:
		return found == nil
	}
	if found == nil {
		return false
	}
	one, other := fmt.Sprint(found), fmt.Sprint(wanted)
	return one == other || sameQuantity(one, other)
}

func sameQuantity(one, other string) bool {
	left, right := parseQuantity(one), parseQuantity(other)
	return left != nil && right != nil && left.Cmp(right) == 0
}

// parseQuantity parses a quantity such as `1.5Gi`, `100m` or `1e3`; nil if the text isn't a quantity.
func parseQuantity(text string) *big.Rat {
	// A longer text isn't a quantity, and a large exponent would need a lot of memory.
	if len(text) == 0 || len(text) > 40 {
		return nil
	}
	at := strings.LastIndexFunc(text, func(c rune) bool { return '0' <= c && c <= '9' || c == '.' }) + 1
	factor := suffixes[text[at:]]
	number := text[:at]
	if factor == nil || strings.Trim(number, "0123456789.eE+-") != "" || hasLargeExponent(number) {
		return nil
	}
	value, valid := new(big.Rat).SetString(number)
	if !valid {
		return nil
	}
	return value.Mul(value, factor)
}

// hasLargeExponent says whether the exponent has more than two digits.
func hasLargeExponent(number string) bool {
	at := strings.IndexAny(number, "eE")
	return at >= 0 && len(strings.Trim(number[at+1:], "+-")) > 2
}
