package node

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// expand replaces $(NAME) by the variable of that name, as Kubernetes does: an unknown one is left as
// it is, and $$ stands for $.
func expand(text string, variables map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		switch end := strings.IndexByte(text[i:], ')'); {
		case text[i+1] == '$':
			out.WriteByte('$')
			i++
		case text[i+1] == '(' && end > 0:
			name := text[i+2 : i+end]
			if value, known := variables[name]; known {
				out.WriteString(value)
			} else {
				out.WriteString(text[i : i+end+1])
			}
			i += end
		default:
			out.WriteByte('$')
		}
	}
	return out.String()
}

// move replaces one text by another where it stands by itself.
type move struct {
	from, to string
	// before and after list what may stand beside it, apart from the ends of the text.
	before, after string
}

// moves is what has to be different on this machine.
type moves []move

// pathMove moves a mountPath and what is below it.
func pathMove(from, to string) move {
	const around = "=,;:\"' \t\n()[]"
	return move{from: from, to: to, before: around, after: around + "/"}
}

// portMoves moves a port of the Pod, by whatever name the Pod may have for itself.
func portMoves(from int32, to int) moves {
	const around = "=,;\"' \t\n()/@"
	var all moves
	for _, host := range []string{"", "0.0.0.0", "[::]", "localhost", podIP} {
		all = append(all, move{
			from: host + ":" + strconv.Itoa(int(from)), to: podIP + ":" + strconv.Itoa(to), before: around, after: around,
		})
	}
	return all
}

// apply makes all moves in one pass, so that none sees what another one has written.
func (m moves) apply(text string) string {
	ordered := slices.SortedStableFunc(slices.Values(m), func(a, b move) int { return cmp.Compare(len(b.from), len(a.from)) })
	var out strings.Builder
	for i := 0; i < len(text); {
		at := slices.IndexFunc(ordered, func(each move) bool { return each.at(text, i) })
		if at < 0 {
			out.WriteByte(text[i])
			i++
			continue
		}
		out.WriteString(ordered[at].to)
		i += len(ordered[at].from)
	}
	return out.String()
}

func (m move) at(text string, i int) bool {
	end := i + len(m.from)
	return strings.HasPrefix(text[i:], m.from) &&
		(i == 0 || strings.IndexByte(m.before, text[i-1]) >= 0) &&
		(end == len(text) || strings.IndexByte(m.after, text[end]) >= 0)
}
