package diagram

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// box is a node, or a group of boxes. Its place is that of its upper left corner.
type box struct {
	id     string
	lines  []string
	shape  string // node, question, round, group
	parent *box
	inner  []*box
	x, y   float64
	w, h   float64
}

type edge struct {
	from, to *box
	label    []string
	dotted   bool
	back     bool // against the direction of the chart
	// By which points it goes around other boxes: in the groups that it leaves, between these and those that
	// it enters, and in the latter.
	leaving, between, entering []*box
}

// ways returns all points between the ends.
func (e *edge) ways() []*box { return slices.Concat(e.leaving, e.between, e.entering) }

// flow is a flowchart. All boxes are in one group without a frame.
type flow struct {
	across bool // from left to right
	top    *box
	boxes  map[string]*box
	edges  []*edge
}

var (
	subgraphLine = regexp.MustCompile(`^subgraph (\w+)(?: ?\["?(.+?)"?\])?$`)
	// nodePart is a node at the beginning of what is left of a line, with what stands in it.
	nodePart = regexp.MustCompile(`^(\w+)(\(\[.+?\]\)|\[.+?\]|\{.+?\}|\(.+?\))? *`)
	edgePart = regexp.MustCompile(`^(-->|-\.->|---)(?:\|"?([^|]+?)"?\|)? *`)
)

func drawFlow(direction string, lines []string) (string, error) {
	f := &flow{top: &box{shape: "group"}, boxes: map[string]*box{}}
	switch direction {
	case "LR":
		f.across = true
	case "TD", "TB":
	default:
		return "", fmt.Errorf("flowchart: direction %q is neither LR nor TD", direction)
	}
	if err := f.read(lines); err != nil {
		return "", err
	}
	return f.draw(), nil
}

// read takes the lines of a flowchart, and lays it out.
func (f *flow) read(lines []string) error {
	group := f.top
	for _, line := range lines {
		if match := subgraphLine.FindStringSubmatch(line); match != nil {
			inner := f.box(match[1], group)
			inner.shape = "group"
			if inner.lines = []string{match[1]}; match[2] != "" {
				inner.lines = []string{match[2]}
			}
			f.move(inner, group)
			group = inner
		} else if line == "end" && group.parent != nil {
			group = group.parent
		} else if err := f.statement(line, group); err != nil {
			return err
		}
	}
	if group != f.top {
		return fmt.Errorf("flowchart: subgraph %s has no end", group.id)
	}
	f.turnBack(f.top)
	for _, inner := range f.top.groups() {
		f.turnBack(inner)
	}
	f.layOut(f.top)
	f.place(f.top, 0, 0)
	return nil
}

// statement reads a node, or nodes with edges between them.
func (f *flow) statement(line string, group *box) error {
	from, rest, err := f.node(line, group)
	for err == nil && rest != "" {
		match := edgePart.FindStringSubmatch(rest)
		if match == nil {
			return fmt.Errorf("flowchart: %q in %q is no edge", rest, line)
		}
		var to *box
		to, rest, err = f.node(rest[len(match[0]):], group)
		e := &edge{from: from, to: to, dotted: match[1] == "-.->"}
		if match[2] != "" {
			e.label = wrap(match[2], 22)
		}
		f.edges = append(f.edges, e)
		from = to
	}
	return err
}

func (f *flow) node(text string, group *box) (b *box, rest string, err error) {
	match := nodePart.FindStringSubmatch(text)
	if match == nil {
		return nil, "", fmt.Errorf("flowchart: %q is no node", text)
	}
	b = f.box(match[1], group)
	if match[2] != "" {
		text := match[2][1 : len(match[2])-1]
		if strings.HasPrefix(match[2], "([") {
			text = text[1 : len(text)-1]
		}
		b.lines = wrap(strings.Trim(text, `"`), wide)
		b.shape = map[byte]string{'[': "node", '{': "question", '(': "round"}[match[2][0]]
		f.move(b, group) // What is described in a group belongs to it.
	}
	return b, text[len(match[0]):], nil
}

// box returns the box with an id. One that was not there is put into the group.
func (f *flow) box(id string, group *box) *box {
	if f.boxes[id] == nil {
		f.boxes[id] = &box{id: id, lines: []string{id}, shape: "node", parent: group}
		group.inner = append(group.inner, f.boxes[id])
	}
	return f.boxes[id]
}

func (f *flow) move(b, group *box) {
	if b.parent == group {
		return
	}
	for i, other := range b.parent.inner {
		if other == b {
			b.parent.inner = append(b.parent.inner[:i:i], b.parent.inner[i+1:]...)
			break
		}
	}
	b.parent = group
	group.inner = append(group.inner, b)
}

// place turns places within groups into places in the picture.
func (f *flow) place(b *box, x, y float64) {
	b.x, b.y = b.x+x, b.y+y
	for _, inner := range b.inner {
		f.place(inner, b.x, b.y)
	}
}
