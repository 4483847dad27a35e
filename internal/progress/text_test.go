package progress

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ptr(s string) *string { return &s }

func genTag() *rapid.Generator[tag] {
	return rapid.Custom(func(t *rapid.T) tag {
		n := rapid.Uint64Range(0, highest).Draw(t, "n")
		if rapid.Bool().Draw(t, "small") {
			n %= 3
		}
		return tag{era: rapid.Int64Range(0, highest).Draw(t, "era"), n: n,
			d: rapid.Int64Range(0, int64(n)).Draw(t, "d"), inherits: n > 0 && rapid.Bool().Draw(t, "inherits")}
	})
}

func TestViewTextComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		client := rapid.OneOf(rapid.Just[*string](nil), rapid.Ptr(rapid.OneOf(rapid.String(),
			rapid.SampledFrom([]string{"", "AQAAAZ==", "|tandem:1:0:5", "!tandem:1:0:5", "!", "|", "tandem:1:"})), false)).Draw(t, "client")
		want, offset := genTag().Draw(t, "tag"), rapid.Int64Min(0).Draw(t, "offset")
		stored := viewText(client, want, offset)
		text, got, ours := parseViewText(&stored, offset)
		if !ours || got != want || (client == nil) != (text == nil) || client != nil && *client != *text {
			t.Fatalf("%q: %v %+v %v, want %v %+v", stored, text, got, ours, client, want)
		}
		if length := len(stored); client != nil && length > len(*client)+MaxSuffix || client == nil && length > MaxSuffix {
			t.Fatalf("%q is longer than MaxSuffix allows", stored)
		}
		if _, _, ours := parseViewText(&stored, offset^1); ours {
			t.Fatalf("%q is ours at another offset", stored)
		}
		if SourceIsOurs(&stored, offset) {
			t.Fatalf("%q is taken for a source row", stored)
		}
	})
}

func TestTextsThatAreNotOurs(t *testing.T) {
	for _, text := range []string{
		"", "tandem", "tandem:1", "tandem:1:", "tandem:1:1", "tandem:1:1:", "tandem:1::5", "tandem:2:1:5", "Tandem:1:1:5", " tandem:1:1:5",
		"tandem:1:1:5 ", "tandem:1:01:5", "tandem:1:1:05", "tandem:1:+1:5", "tandem:1:-1:5", "tandem:1:1:6", "tandem:1:1.0:5", "tandem:1:1.:5",
		"tandem:1:1.1+0:5", "tandem:1:1.1+:5", "tandem:1:1.1i:5", "tandem:1:1.1+-1:5", "tandem:1:1.1:5:5", "tandem:1:9223372036854775808:5",
		"tandem:1:9223372036854775807:5", "tandem:1:1.18446744073709551616:5", "tandem:1:1.1+9223372036854775807:5",
	} {
		if SourceIsOurs(&text, 5) {
			t.Errorf("%q counts as a source row of ours", text)
		}
		if _, _, ours := parseViewText(ptr("x"+text), 5); ours {
			t.Errorf("%q counts as a view row of ours", "x"+text)
		}
	}
	for _, text := range []string{"x|tandem:1:1.1+2:5", "x!tandem:1:1:5", "x|tandem:1:1.9223372036854775807:5", "|tandem:1:1.0+1:5", "|tandem:1:1.1ii:5"} {
		if _, _, ours := parseViewText(&text, 5); ours {
			t.Errorf("%q counts as a view row of ours", text)
		}
	}
	if SourceIsOurs(ptr("x|tandem:1:1:5"), 5) {
		t.Error("a view row counts as a source row")
	}
	if SourceIsOurs(nil, 5) || SourceIsOurs(ptr("tandem:1:1:-1"), -1) {
		t.Error("a null text, or a row that is none, counts")
	}
}

// FuzzViewText: never panics; a text that counts is exactly what viewText writes; any other comes back as it is.
func FuzzViewText(f *testing.F) {
	for _, s := range []string{"", "AQ==", "x|tandem:1:3:7", "!tandem:1:3.1:7", "x|tandem:1:3.2+1i:7", "tandem:1:3:7", "|tandem:1:4611686018427387905:7"} {
		f.Add(s, int64(7))
	}
	f.Fuzz(func(t *testing.T, stored string, offset int64) {
		client, tag, ours := parseViewText(&stored, offset)
		if ours && viewText(client, tag, offset) != stored {
			t.Fatalf("%q is written %q", stored, viewText(client, tag, offset))
		}
		if !ours && (client == nil || *client != stored) {
			t.Fatalf("%q came back as %v", stored, client)
		}
		if ours && (tag.era < 0 || tag.era > highest || tag.n > highest || tag.voids() > tag.n) {
			t.Fatalf("%q: %+v out of bounds", stored, tag)
		}
	})
}

// FuzzSourceText: never panics; a text that counts is exactly what we would write.
func FuzzSourceText(f *testing.F) {
	for _, s := range []string{"", "tandem:1:3:7", "tandem:1:3.18446744073709551615+9:7", "tandem:1:3.0+9:7", "tandem:1:3.1i:7"} {
		f.Add(s, int64(7))
	}
	f.Fuzz(func(t *testing.T, stored string, offset int64) {
		tag, ours := parseSourceText(stored, offset)
		if ours && string(tag.append(nil, offset)) != stored {
			t.Fatalf("%q is written %q", stored, tag.append(nil, offset))
		}
		if ours && (tag.era < 0 || tag.d < 0 || offset+tag.d < offset || !strings.HasPrefix(stored, words)) {
			t.Fatalf("%q: %+v", stored, tag)
		}
	})
}
