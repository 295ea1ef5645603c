package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/dump"
)

// corners has quantities in each of the forms that ParseQuantity gives them, and texts that are none.
var corners = []string{
	"0", "1", "+1", "-1", "00", "01", "0.0", "0.", ".5", "1.", ".", "", "+", "-", "1x", "1 ", "1i", "1K", "1k", "1Ki", "8Ki", "12Ki",
	"1Mi", "128Mi", "100Mi", "512Mi", "1Gi", "16Gi", "99999Gi", "100000Gi", "10Ti", "100Ti", "1Pi", "1Ei", "7Ei", "8Ei", "0Pi", "-1Pi",
	"0.5Gi", "1.5Gi", "0.1Ki", "0.0001Ki", "-0.5Gi", "-0.0001Ki", "1.25Mi", "1000", "1000m", "10000", "1500m", "100m", "0.1", "0.01", "1.5", "1u",
	"1n", "0.1n", "0.0000000001", "0.00000000001", "1.0000000001", "-0.0000000001", "-1.0000000001", "123456789012345678", "1234567890123456789",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "99999999999999999999999999999999999999999999999999",
	"1e3", "1E3", "1e-3", "1e30", "1e-9", "1e-10", "1e+3", "1e", "e3", "1E", "12E", "1e2000", "100e-2", "1.5e3", "1234567890123456789e3",
	"1234567890123456789e-12", "0e5", "1.1.1", "1,5", "1Mi1", "1EiB", "0x10", "１", "1P", "1T", "1000T", "999999999999999999E",
	"18446744073709551616Ki", "18446744073709551615", "0.123456789", "0.1234567891", "10.500", "0.000", "000.100", "1.000Ki",
}

// quantities returns lines with a text and the dump of its quantity, or `-` if it is not one.
func quantities(random *rand.Rand, count int) []byte {
	var lines bytes.Buffer
	row := func(text string) {
		printed := "-"
		if quantity, err := resource.ParseQuantity(text); err == nil {
			printed = dump.ForHash(quantity.DeepCopy())
		}
		fmt.Fprintf(&lines, "%s\t%s\n", text, printed)
	}
	for _, text := range corners {
		row(text)
	}
	for range count {
		row(filler{Rand: random}.quantity())
	}
	return lines.Bytes()
}

// quantity returns a random quantity. The lists have those that are often used, first.
func (f filler) quantity() string {
	if f.Intn(2) == 0 {
		return pick(f, []string{"1", "100m", "250m", "500m", "0.5", "2", "128Mi", "256Mi", "64Mi", "100Mi", "1Gi", "1.5Gi", "10Gi", "500M", "0"})
	}
	digits := func(most int) string {
		var text strings.Builder
		for range 1 + f.Intn(most) {
			text.WriteByte(byte('0' + f.Intn(10)))
		}
		return text.String()
	}
	text := pick(f, []string{"", "", "", "-", "+"}) + digits(pick(f, []int{2, 5, 22}))
	if f.Intn(3) == 0 {
		text += "." + digits(pick(f, []int{2, 12}))
	}
	suffixes := []string{"", "m", "k", "M", "G", "T", "P", "E", "n", "u", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e0", "e12"}
	return text + pick(f, suffixes)
}
