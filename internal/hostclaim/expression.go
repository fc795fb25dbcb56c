package hostclaim

import (
	"errors"
	"regexp"
	"regexp/syntax"

	"k8s.io/utils/lru"
)

// maxInstructions bounds what an expression of a policy costs each claim that asks: a few milliseconds at most. A name
// of a namespace has 63 characters, so nobody needs more.
const maxInstructions = 2000

// maxExpressions is how many expressions are kept. More than those are compiled again, which is slow and not wrong.
const maxExpressions = 128

// expressions are those of policies, compiled once for all claims that ask. What an expression means depends on nothing
// but its text.
var expressions = lru.New(maxExpressions) //nolint:gochecknoglobals // a cache of a pure function

// compiled is what came of an expression.
type compiled struct {
	whole *regexp.Regexp
	err   error
}

var errLargeExpression = errors.New("it repeats too much. Use fewer or smaller repetitions, or list the names")

// anchored returns a regular expression for whole names.
func anchored(expression string) (*regexp.Regexp, error) {
	if found, ok := expressions.Get(expression); ok {
		if known, ok := found.(compiled); ok {
			return known.whole, known.err
		}
	}
	whole, err := compile(expression)
	expressions.Add(expression, compiled{whole, err})
	return whole, err
}

func compile(expression string) (*regexp.Regexp, error) {
	// On its own first: what closes a bracket that it has not opened would undo the anchors.
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxInstructions {
		return nil, errLargeExpression
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}
