package defaults

import (
	"encoding/json"
	"testing"
)

func TestASpecHoldsWhatIsWanted(t *testing.T) {
	for _, test := range []struct {
		found, wanted string
		holds         bool
	}{
		{`{}`, `{}`, true},
		{`{"a": "b"}`, `{"a": "b"}`, true},
		{`{"a": "b"}`, `{"a": "c"}`, false},
		{`{}`, `{"a": "b"}`, false},
		{`{"a": "ü"}`, `{"a": "ü"}`, true},
		{`{"a": true}`, `{"a": true}`, true},
		{`{"a": true}`, `{"a": "yes"}`, false},
		// Other managers may own other fields.
		{`{"hard": {"pods": "10", "services": "1"}}`, `{"hard": {"pods": 10}}`, true},
		{`{"a": "b"}`, `{"a": null}`, false},
		// The server leaves out empty values.
		{`{}`, `{"egress": [], "podSelector": {}}`, true},
		{`{"egress": [{}]}`, `{"egress": []}`, false},
		// Lists and selectors belong to one manager as a whole.
		{`{"types": ["A", "B"]}`, `{"types": ["A"]}`, false},
		{`{"types": ["A"]}`, `{"types": ["A", "B"]}`, false},
		{`{"podSelector": {"matchLabels": {"a": "b"}}}`, `{"podSelector": {}}`, false},
		{`{"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]}`, `{"ingress": [{"from": [{"podSelector": {}}]}]}`, false},
		{`{"ingress": [{"from": [{"podSelector": {}}]}]}`, `{"ingress": [{"from": [{"podSelector": {}}]}]}`, true},
		// Fields that the server fills in are ignored.
		{`{"egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}]}`, `{"egress": [{"ports": [{"port": 53}]}]}`, true},
		{`{"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]}`, `{"egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}]}`, false},
		{`{"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]}`,
			`{"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}`, true},
		{`{"limits": [{"type": "Container", "max": {"cpu": "9"}}]}`, `{"limits": [{"type": "Container"}]}`, false},
		{`[]`, `{"a": "b"}`, false},
	} {
		var found, wanted any
		for text, value := range map[string]*any{test.found: &found, test.wanted: &wanted} {
			if err := json.Unmarshal([]byte(text), value); err != nil {
				t.Fatal(err)
			}
		}
		if test.found == test.wanted {
			found = wanted
		}
		if holds(found, wanted, false) != test.holds {
			t.Errorf("%s holds %s: %t", test.found, test.wanted, !test.holds)
		}
	}
}

func TestQuantitiesAreComparedByValue(t *testing.T) {
	for _, same := range [][2]string{
		{"1", "1000m"}, {"0.5", "500m"}, {"1Gi", "1024Mi"}, {"1Gi", "1073741824"}, {"1k", "1e3"}, {"1E3", "1000"}, {"1e+09", "1G"},
		{"1.50", "1.5"}, {"2E", "2000000000000000000"}, {"-1", "-1000m"}, {"100n", "0.1u"}, {"0", "0Ki"},
	} {
		if !sameQuantity(same[0], same[1]) {
			t.Errorf("%s is not %s", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{"1", "2"}, {"1Gi", "1G"}, {"", ""}, {"a", "a1"}, {"1/2", "0.5"}, {"0x10", "16"}, {"1_0", "10"}, {"1e999999999", "1e999999999"},
		{"1K", "1000"}, {"½", "0.5"}, {".", "."},
	} {
		if sameQuantity(other[0], other[1]) {
			t.Errorf("%s is %s", other[0], other[1])
		}
	}
}
