package main

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// A table stands between two comments. The first one says which flags are in it, in which order: names, or patterns
// such as "log-*". A table for "*" has those that no other one has.
const (
	begin   = "<!-- flags: "
	end     = "<!-- end of flags -->"
	closing = " -->"
	rest    = "*"
)

// fill returns a page with its tables made anew. Every flag that is not hidden is in one table.
func fill(page string, flags *pflag.FlagSet) (string, error) {
	left := map[string]*pflag.Flag{}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			left[f.Name] = f
		}
	})
	// What the patterns of others name is not for "*", wherever that stands.
	parts := strings.Split(page, begin)
	tables := make([]string, len(parts))
	for _, last := range []bool{false, true} {
		for i, part := range parts[1:] {
			marker, body, ok := strings.Cut(part, closing)
			if _, _, ended := strings.Cut(body, end); !ok || !ended {
				return "", fmt.Errorf("the comment %q has no end", begin+strings.SplitN(part, "\n", 2)[0])
			}
			if (marker == rest) != last {
				continue
			}
			rows, err := take(marker, flags, left)
			if err != nil {
				return "", err
			}
			tables[i+1] = rows
		}
	}
	for name := range left {
		return "", fmt.Errorf("no table has --%s: name it in one, or make one for %q", name, rest)
	}
	var filled strings.Builder
	filled.WriteString(parts[0])
	for i, part := range parts[1:] {
		marker, body, _ := strings.Cut(part, closing)
		_, after, _ := strings.Cut(body, end)
		filled.WriteString(begin + marker + closing + "\n" + tables[i+1] + end + after)
	}
	return filled.String(), nil
}

// take returns the table of the flags that a marker names and strikes them off what is left.
func take(marker string, flags *pflag.FlagSet, left map[string]*pflag.Flag) (string, error) {
	var rows strings.Builder
	for name := range strings.SplitSeq(marker, ",") {
		name = strings.TrimSpace(name)
		if f := flags.Lookup(name); f != nil && left[name] == nil {
			return "", fmt.Errorf("--%s is hidden, or is in two tables", name)
		}
		var problems []error
		found := false
		flags.VisitAll(func(f *pflag.Flag) {
			ok, err := path.Match(name, f.Name)
			problems = append(problems, err)
			if ok && left[f.Name] != nil {
				found = true
				delete(left, f.Name)
				rows.WriteString(row(f))
			}
		})
		if err := errors.Join(problems...); err != nil {
			return "", fmt.Errorf("reading %q: %w", name, err)
		}
		if !found && name != rest {
			return "", fmt.Errorf("there is no flag --%s", name)
		}
	}
	return "\n| flag | default | meaning |\n|---|---|---|\n" + rows.String() + "\n", nil
}

func row(f *pflag.Flag) string {
	name := code("--" + f.Name)
	if f.Shorthand != "" {
		name = code("-"+f.Shorthand) + " " + name
	}
	return strings.ReplaceAll("| "+name+" | "+code(value(f))+" | "+prose(f.Usage)+" |\n", "|  |", "| |")
}

// value is the default of a flag; nothing, if it is none.
func value(f *pflag.Flag) string {
	if f.DefValue == "[]" {
		return ""
	}
	return f.DefValue
}

// literal is what is typed as it stands: flags, keys, addresses, settings.
var literal = regexp.MustCompile(`--[a-z][a-z0-9-]*|[^\s,;()]*[/=<][^\s,;()]*|[a-z]+:\d+`)

// prose sets what is literal in a sentence as code.
func prose(usage string) string {
	usage = strings.Join(strings.Fields(usage), " ")
	return literal.ReplaceAllStringFunc(usage, func(word string) string {
		bare := strings.TrimRight(word, ".:")
		return code(bare) + word[len(bare):]
	})
}

// code sets a text as code in a cell of a table.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}
