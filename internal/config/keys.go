package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// checkKeys refuses keys that the settings do not have, with the nearest one
// that they have, keys that come twice, and values of another type. A file
// without any settings is empty.
func checkKeys(data []byte) (empty bool, err error) {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // checkNode names them better
	if err != nil {
		return false, oneLine(err)
	}
	docs := 0
	for _, doc := range file.Docs {
		switch doc.Body.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode:
			continue
		}
		if docs++; docs > 1 {
			return false, at(doc.Body, "here a second document begins; one file has one")
		}
		if err := checkNode(doc.Body, reflect.TypeFor[Config](), ""); err != nil {
			return false, err
		}
	}
	return docs == 0, nil
}

func checkNode(node ast.Node, t reflect.Type, path string) error {
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return checkValue(node, t, path)
	}
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.AnchorNode:
		return checkNode(n.Value, t, path)
	case *ast.AliasNode:
		return nil // checked where its anchor is
	default:
		where := "the file"
		if path != "" {
			where = path
		}
		return at(node, "%s must be %s%s", where, mappingOf(t), found(node, path))
	}
	first := make(map[string]ast.Node, len(values))
	for _, v := range values {
		key := strings.Trim(v.Key.String(), `"'`)
		full := strings.TrimPrefix(path+"."+key, ".")
		if before := first[key]; before != nil {
			return at(v.Key, "%s is there twice, first in line %d", full, before.GetToken().Position.Line)
		}
		first[key] = v.Key
		f, ok := settingType(t, key, v.Value)
		if !ok {
			return at(v.Key, "unknown setting %q%s", full, hint(key, path, t))
		}
		if _, number := v.Key.(*ast.IntegerNode); number {
			return at(v.Key, "%s must be text: put the name in quotes", full)
		}
		if err := checkNode(v.Value, f, full); err != nil {
			return err
		}
	}
	return nil
}

// settingType returns the type of what a section has under a key. Where the
// keys are names, every key is there.
func settingType(section reflect.Type, key string, value ast.Node) (reflect.Type, bool) {
	switch {
	case section.Kind() == reflect.Map:
		return section.Elem(), true
	case section == reflect.TypeFor[Views]() && fields(section)[key] == nil && isMapping(value):
		return reflect.TypeFor[View](), true
	}
	f, ok := fields(section)[key]
	return f, ok
}

// mappingOf says what a section looks like.
func mappingOf(t reflect.Type) string {
	if t == reflect.TypeFor[View]() {
		return viewLook
	}
	return "a mapping of settings"
}

const viewLook = "{source: TOPIC, partitions: NUMBER}"

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

func at(n ast.Node, format string, args ...any) error {
	return &lineError{n.GetToken().Position.Line, fmt.Sprintf(format, args...)}
}

// lineError says what is wrong in which line.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// fields returns the types of a section's settings by key.
func fields(t reflect.Type) map[string]reflect.Type {
	known := map[string]reflect.Type{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" && key != "NAME" {
			known[key] = t.Field(i).Type
		}
	}
	return known
}

// hint tells of a key "section.setting" that it takes a level of the file more.
// Otherwise it names a setting of that name in another section; else the nearest one of
// the section; where none is near, all of them.
func hint(key, path string, t reflect.Type) string {
	if section, rest, dotted := strings.Cut(key, "."); dotted {
		if f, ok := fields(t)[section]; ok && (f.Kind() == reflect.Struct || f.Kind() == reflect.Map) {
			return fmt.Sprintf("; write %q in the section %q", rest, strings.TrimPrefix(path+"."+section, "."))
		}
	}
	for _, s := range settings(reflect.TypeFor[Config](), "") {
		if s.path == key || s.name == key {
			return fmt.Sprintf("; did you mean %q?", s.path)
		}
	}
	names := make([]string, 0, t.NumField())
	for name := range fields(t) {
		names = append(names, name)
	}
	slices.Sort(names)
	best, bestDistance := "", len(key)/2+1
	for _, name := range names {
		if d := distance(key, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %q?", strings.TrimPrefix(path+"."+best, "."))
	}
	there := "; there are " + strings.Join(names, ", ")
	if t == reflect.TypeFor[Views]() {
		there += ", and views: NAME: " + viewLook
	}
	return there
}

// setting is one that has a value of its own: its name, and with the sections
// before it.
type setting struct{ name, path string }

func settings(t reflect.Type, prefix string) []setting {
	var all []setting
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		path := strings.TrimPrefix(prefix+"."+name, ".")
		switch {
		case f.Type.Kind() == reflect.Struct:
			all = append(all, settings(f.Type, path)...)
		case f.Type == reflect.TypeFor[map[string]Topic]():
			all = append(all, settings(f.Type.Elem(), path+".NAME")...)
		default:
			all = append(all, setting{name, path})
		}
	}
	return all
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
