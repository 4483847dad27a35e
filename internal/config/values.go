package config

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// checkValue refuses a value that is not of its setting's type, and those that
// YAML would quietly turn into another one: 2.5 into 2, or the text 0123 into 83.
// Without a value a setting has its default.
func checkValue(node ast.Node, t reflect.Type, path string) error {
	if a, ok := node.(*ast.AnchorNode); ok {
		return checkValue(a.Value, t, path)
	}
	switch node.(type) {
	case *ast.NullNode, *ast.CommentGroupNode, *ast.AliasNode: // an alias alone cannot be decoded
		return nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	ok := yaml.NodeToValue(node, reflect.New(t).Interface()) == nil
	if _, float := node.(*ast.FloatNode); float && isInteger(t) {
		ok = false
	}
	quotes := ""
	if t.Kind() == reflect.String {
		switch node.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
			ok, quotes = false, ": put it in quotes"
		}
	}
	if ok {
		return nil
	}
	return at(node, "%s must be %s%s%s", path, expected(t, path), found(node, path), quotes)
}

func isInteger(t reflect.Type) bool {
	return t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64 && t != reflect.TypeFor[time.Duration]()
}

// expected says what a setting's value is.
func expected(t reflect.Type, path string) string {
	switch {
	case t == reflect.TypeFor[Addresses]():
		return "HOST:PORT, a list of those, or one text with commas (within braces each needs quotes)"
	case t == reflect.TypeFor[time.Duration]():
		return "a duration, a number with a unit, like 10s"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case !isInteger(t):
		return "text"
	}
	what := "a whole number"
	switch {
	case strings.HasSuffix(path, ".ms"):
		what += " of milliseconds"
	case strings.Contains(path, ".bytes"):
		what += " of bytes"
	}
	if t.Kind() == reflect.Int32 {
		what += fmt.Sprintf(" up to %d", math.MaxInt32)
	}
	return what
}

// found says what is there in its place; secrets do not show.
func found(node ast.Node, path string) string {
	switch n := node.(type) {
	case *ast.SequenceNode:
		return ", not a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return ", not a mapping"
	case ast.ScalarNode:
		if path != "kafka.sasl.password" && !strings.Contains(n.String(), "\n") {
			return ", not " + n.String()
		}
	}
	return ""
}
