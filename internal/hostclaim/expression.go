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
	// size is the number of its instructions. To match takes that number times the length of the text at most.
	size int
	err  error
}

var errLargeExpression = errors.New("it repeats too much. Use fewer or smaller repetitions, or list the names")

// anchored returns a regular expression for whole names.
func anchored(expression string) (*regexp.Regexp, error) {
	known := compiledOf(expression)
	return known.whole, known.err
}

// compiledOf compiles an expression, unless that was done before.
func compiledOf(expression string) compiled {
	if found, ok := expressions.Get(expression); ok {
		if known, ok := found.(compiled); ok {
			return known
		}
	}
	fresh := compile(expression)
	expressions.Add(expression, fresh)
	return fresh
}

func compile(expression string) compiled {
	// On its own first: what closes a bracket that it has not opened would undo the anchors.
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return compiled{err: err}
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return compiled{err: err}
	}
	if len(program.Inst) > maxInstructions {
		return compiled{err: errLargeExpression}
	}
	whole, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	return compiled{whole, len(program.Inst), err}
}
