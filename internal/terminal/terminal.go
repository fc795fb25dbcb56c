// Package terminal has what commands print: texts that others have written, and documents for scripts.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Forms of the output, beside the table.
const (
	Table = ""
	JSON  = "json"
	YAML  = "yaml"
)

// Printable has a text in one cell of one line. Tenants can have written it, and what a terminal takes for a command
// must not reach one.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		default:
			return r
		}
	}, text)
}

// Document prints a value as JSON, or as YAML.
func Document(out io.Writer, form string, value any) error {
	if form == YAML {
		raw, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "---\n%s", raw)
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
