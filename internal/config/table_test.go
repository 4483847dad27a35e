package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the table of settings in docs/operations.md")

const (
	operations = "../../docs/operations.md"
	tableBegin = "<!-- settings: made by go test ./internal/config -update -->\n"
	tableEnd   = "<!-- end of settings -->\n"
)

// The table of settings is made from the fields, their defaults and comments.
func TestTableOfSettings(t *testing.T) {
	data, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), tableBegin)
	old, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", operations, tableBegin, tableEnd)
	}
	want := "| setting | flag | default | meaning |\n|---|---|---|---|\n" +
		tableRows(t, comments(t), reflect.ValueOf(Default()), "")
	if old == want {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is out of date: go test ./internal/config -update", operations)
	}
	if err := os.WriteFile(operations, []byte(before+tableBegin+want+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tableRows(t *testing.T, docs map[string]string, v reflect.Value, prefix string) string {
	var rows strings.Builder
	for i := range v.NumField() {
		f := v.Type().Field(i)
		path := strings.TrimPrefix(prefix+"."+f.Tag.Get("yaml"), ".")
		doc := docs[v.Type().Name()+"."+f.Name]
		if doc == "" {
			t.Errorf("%s.%s has no comment", v.Type().Name(), f.Name)
		}
		switch {
		case f.Type.Kind() == reflect.Struct:
			rows.WriteString(tableRows(t, docs, v.Field(i), path))
			continue
		case f.Type == reflect.TypeFor[map[string]Topic]():
			rows.WriteString(tableRows(t, docs, reflect.Zero(f.Type.Elem()), path+".NAME"))
			continue
		case f.Type.Kind() == reflect.Map:
			fmt.Fprintf(&rows, "| `%s: {source, partitions}` | | none | %s |\n", path, doc)
			continue
		}
		name := ""
		if flag := f.Tag.Get("flag"); flag != "" {
			name = "`--" + flag + "`"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", path, name, defaultText(v.Field(i)), doc)
	}
	return rows.String()
}

func defaultText(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return "`" + d.String() + "`"
	}
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Pointer || v.Kind() == reflect.String && v.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("`%v`", v)
}

// comments returns the comments of the fields of config.go by Type.Field.
func comments(t *testing.T) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				text := strings.Join(strings.Fields(f.Doc.Text()), " ")
				docs[spec.Name.Name+"."+f.Names[0].Name] = strings.ReplaceAll(text, "|", "\\|")
			}
		}
		return true
	})
	return docs
}
