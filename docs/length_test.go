package docs_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// How many words there may be of what people read in an incident, or before they change something. Together they are
// what one reads in two hours.
const (
	mostADRWords        = 10_500
	mostOperationsWords = 14_500
)

// Nobody reads a decision that is buried in twice the words that it needs, and what nobody reads is not kept true. So
// whoever adds takes something else out.
func TestLength(t *testing.T) {
	for dir, most := range map[string]int{"adr": mostADRWords, "operations": mostOperationsWords} {
		files, err := filepath.Glob(filepath.Join(dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Fatalf("docs/%s has no pages", dir)
		}
		words := 0
		for _, file := range files {
			for field := range strings.FieldsSeq(read(t, file)) {
				if strings.ContainsFunc(field, isOfWord) { // What only draws a table or a list is not read.
					words++
				}
			}
		}
		if words > most {
			t.Errorf("docs/%s has %d words, and %d at most are read: take out what the code or another page says, "+
				"what is not true any more, and how it came about", dir, words, most)
		}
	}
}

func isOfWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
