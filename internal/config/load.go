package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// Load reads the file into the defaults. The result is not validated yet:
// flags may come on top.
func Load(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("config file: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		var l *lineError
		if errors.As(err, &l) {
			return Config{}, fmt.Errorf("config file %s:%d: %s", path, l.line, l.text)
		}
		return Config{}, fmt.Errorf("config file %s: %w", path, err)
	}
	return c, nil
}

// Parse reads YAML into the defaults. Unknown keys, keys that come twice, values
// of another type and more than one document are errors.
func Parse(data []byte) (Config, error) {
	c := Default()
	if empty, err := checkKeys(data); err != nil || empty {
		return c, err
	}
	dec := yaml.NewDecoder(strings.NewReader(string(data)), yaml.Strict())
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, oneLine(err)
	}
	return c, nil
}

// oneLine takes the position and the message of a YAML error and leaves the
// picture of the source.
func oneLine(err error) error {
	text, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
	if strings.Contains(text, "'\t'") || strings.Contains(text, "tab character") {
		text, _, _ = strings.Cut(text, "]")
		text += "] tabs do not indent: use spaces"
	}
	l := &lineError{}
	var column int
	if _, err := fmt.Sscanf(text, "[%d:%d]", &l.line, &column); err == nil {
		_, l.text, _ = strings.Cut(text, "] ")
		return l
	}
	return errors.New(text)
}

// withoutLine is for errors of a text that is not the file's.
func withoutLine(err error) string {
	err = oneLine(err)
	var l *lineError
	if errors.As(err, &l) {
		return l.text
	}
	return err.Error()
}

// Addresses is a list of HOST:PORT.
type Addresses []string

// UnmarshalYAML takes a list or one text with commas.
func (a *Addresses) UnmarshalYAML(decode func(any) error) error {
	var text string
	if err := decode(&text); err == nil {
		*a = ParseAddresses(text)
		return nil
	}
	if err := decode((*[]string)(a)); err != nil {
		return errors.New("kafka.bootstrap.servers must be HOST:PORT, a list of those, or one text with commas; quotes around each help")
	}
	return nil
}

// ParseAddresses splits a text at its commas; blanks and empty parts do not count.
func ParseAddresses(text string) Addresses {
	var list Addresses
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// UnmarshalYAML takes keys with a mapping as views, the others as settings.
func (v *Views) UnmarshalYAML(decode func(any) error) error {
	var keys yaml.MapSlice
	if err := decode(&keys); err != nil {
		return err
	}
	type settings Views // without this method
	var named map[string]View
	var rest yaml.MapSlice
	for _, item := range keys {
		name, ok := item.Key.(string)
		if !ok {
			return fmt.Errorf("the name of a view must be text, not %v", item.Key)
		}
		if _, mapping := item.Value.(map[string]any); !mapping {
			rest = append(rest, item)
			continue
		}
		data, err := yaml.Marshal(item.Value)
		if err != nil {
			return err
		}
		var view View
		if err := yaml.UnmarshalWithOptions(data, &view, yaml.Strict()); err != nil {
			return fmt.Errorf("view %s: %s", name, withoutLine(err))
		}
		if named == nil {
			named = map[string]View{}
		}
		named[name] = view
	}
	data, err := yaml.Marshal(rest)
	if err != nil {
		return err
	}
	s := settings(*v)
	if err := yaml.UnmarshalWithOptions(data, &s, yaml.Strict()); err != nil {
		return fmt.Errorf("views: %s", withoutLine(err))
	}
	*v = Views(s)
	v.Named = named
	return nil
}
