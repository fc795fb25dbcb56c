// Package terminal has what commands print: texts that others have written, and documents for scripts.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
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

// Suggestion asks, in a sentence of its own, whether one of the known words was meant. It is empty if none is close.
func Suggestion(word string, known []string) string {
	words := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, k := range known {
		words.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	similar := words.SuggestionsFor(word)
	if len(similar) == 0 {
		return ""
	}
	return fmt.Sprintf(". Did you mean %s?", Printable(similar[0]))
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
