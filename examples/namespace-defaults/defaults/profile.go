package defaults

import (
	"encoding/json"
	"fmt"

	"flyball.dev/sdk"
)

// Profile has the wanted specs by kind.
type Profile map[string]flyball.Object

// ParseProfile parses a profile: `{"LimitRange": SPEC, "ResourceQuota": SPEC, "NetworkPolicy": SPEC}`, in which any
// kind may be left out.
func ParseProfile(text string) (Profile, error) {
	var specs map[string]flyball.Object
	if err := json.Unmarshal([]byte(text), &specs); err != nil {
		return nil, fmt.Errorf("it is not an object of objects in JSON: %w", err)
	}
	profile := Profile{}
	for typ, spec := range specs {
		kind, found := kindOf(typ)
		if !found {
			return nil, fmt.Errorf("it has the kind %s, which is none of LimitRange, ResourceQuota and NetworkPolicy", typ)
		}
		if spec == nil {
			return nil, fmt.Errorf("its %s is null", typ)
		}
		profile[kind] = spec
	}
	return profile, nil
}
