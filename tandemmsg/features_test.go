package tandemmsg

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func feature(name string, least, most int16) kmsg.ApiVersionsResponseSupportedFeature {
	f := kmsg.NewApiVersionsResponseSupportedFeature()
	f.Name, f.MinVersion, f.MaxVersion = name, least, most
	return f
}

func TestFeaturesCountInAVersionWeSpeak(t *testing.T) {
	for want, versions := range map[bool][][2]int16{true: {{1, 1}, {1, 3}, {0, 1}}, false: {{2, 3}, {0, 0}}} {
		for _, v := range versions {
			resp := kmsg.NewPtrApiVersionsResponse()
			resp.SupportedFeatures = append(resp.SupportedFeatures, feature("metadata.version", 1, 30), feature(FeatureKeyRangeFetch, v[0], v[1]))
			if got := ReadFeatures(resp); got != (Features{KeyRangeFetch: want}) {
				t.Errorf("versions %v: %+v", v, got)
			}
		}
	}
}

func TestSetFeaturesReplacesOursAlone(t *testing.T) {
	resp := kmsg.NewPtrApiVersionsResponse()
	broker := append(resp.SupportedFeatures, feature(FeatureIndividualCommit, 1, 9), feature("metadata.version", 1, 30))
	resp.SupportedFeatures = broker
	SetFeatures(resp, Features{KeyRangeFetch: true})
	SetFeatures(resp, Features{KeyRangeFetch: true})
	if s := resp.SupportedFeatures; len(s) != 2 || s[0].Name != "metadata.version" || s[1].Name != FeatureKeyRangeFetch || s[1].MinVersion != 1 || s[1].MaxVersion != 1 {
		t.Errorf("%+v", s)
	}
	if broker[0].Name != FeatureIndividualCommit || broker[1].Name != "metadata.version" {
		t.Error("the list that the answer had was written to")
	}
}
