package diagram

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// texts returns the texts of a picture, in their order.
func texts(t *testing.T, svg string) []string {
	t.Helper()
	var found []string
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for inside := false; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local == "text"
		case xml.CharData:
			if inside {
				found = append(found, string(token))
			}
			inside = false
		}
	}
}

func TestDraw(t *testing.T) {
	for name, c := range map[string]struct {
		reason, source string
		want           []string // texts
	}{
		"Sequence": {
			reason: "participants, messages to others and to oneself, and notes",
			source: "sequenceDiagram\n%% not seen\nparticipant A as <Archelon>\nA->>Rancher: create & wait\nRancher-->>A: token\nA->>A: think\nNote over A,Rancher: done",
			want:   []string{"create & wait", "token", "think", "done", "<Archelon>", "Rancher"},
		},
		"Flow": {
			reason: "shapes, labels and chains",
			source: "flowchart TD\na{\"Up?\"} -->|yes| b[\"go (on)\"] --> c([Done])\na -.->|no| b",
			want:   []string{"Up?", "go (on)", "Done", "yes", "no"},
		},
		"Groups": {
			reason: "an edge may lead to a group, and a box belongs where it is described",
			source: "flowchart LR\nsubgraph g[Group]\n  b\nend\na --> g\nb --> c[Outside<br>of it]\nc --> b",
			want:   []string{"Group", "b", "a", "Outside", "of it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			svg, err := Draw(c.source)
			if err != nil {
				t.Fatal(err)
			}
			got := texts(t, svg)
			for _, want := range c.want {
				if !strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+want+"\n") {
					t.Errorf("%s: %q is not in %q", c.reason, want, got)
				}
			}
		})
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	for source, want := range map[string]string{
		"":                                   "the diagram is empty",
		"pie":                                `diagram "pie" is neither`,
		"flowchart":                          "flowchart with a direction",
		"flowchart RL\na":                    `direction "RL" is neither LR nor TD`,
		"flowchart TD\na ==> b":              `"==> b" in "a ==> b" is no edge`,
		"flowchart TD\na --> ":               `"" is no node`,
		"flowchart TD\nsubgraph x\na":        "subgraph x has no end",
		"sequenceDiagram\nloop each\nA->>B:": `"loop each" is neither`,
	} {
		if _, err := Draw(source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", source, err, want)
		}
	}
}

// parsed lays a flowchart out.
func parsed(t *testing.T, source string) *flow {
	t.Helper()
	lines := strings.Split(source, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	f := &flow{top: &box{shape: "group"}, boxes: map[string]*box{}, across: lines[0] == "flowchart LR"}
	if err := f.read(lines[1:]); err != nil {
		t.Fatal(err)
	}
	return f
}

// crowded has all that takes room: long texts, edges that pass by boxes, that go back, and
// that leave and enter a group.
const crowded = `
first{Is this a question that is longer than a line?} -->|yes| second[B]
first -->|no| third[C]
second --> last
first --> last
fourth --> last
third --> fourth
last --> first
subgraph group[Group]
  in --> left
  in --> right
end
first -->|a label| in
left --> out[Out]
in --> out`

func TestBoxesDoNotOverlap(t *testing.T) {
	for _, direction := range []string{"LR", "TD"} {
		f := parsed(t, "flowchart "+direction+crowded)
		boxes := append(f.nodes(f.top), f.top.groups()...)
		for i, a := range boxes {
			if !a.within(-margin, -margin, f.top.w+margin, f.top.h+margin) {
				t.Errorf("%s: %s is outside of the picture", direction, a.id)
			}
			if group := a.parent; group != f.top && !a.within(group.x, group.y+titleGap-padding, group.x+group.w, group.y+group.h) {
				t.Errorf("%s: %s is not in its group", direction, a.id)
			}
			if other := slices.IndexFunc(boxes[i+1:], a.overlaps); other >= 0 {
				t.Errorf("%s: %s and %s overlap", direction, a.id, boxes[i+1+other].id)
			}
		}
		for _, e := range f.edges {
			if back := e.from.id == "last"; e.back != back {
				t.Errorf("%s: the edge from %s to %s goes back: %t", direction, e.from.id, e.to.id, e.back)
			}
		}
	}
}

// overlaps reports whether two boxes of which none is in the other are not apart.
func (b *box) overlaps(other *box) bool {
	return b.part(other) == nil && other.part(b) == nil && b.x+b.w > other.x && other.x+other.w > b.x && b.y+b.h > other.y && other.y+other.h > b.y
}

func (b *box) within(left, above, right, below float64) bool {
	return b.x >= left && b.y >= above && b.x+b.w <= right && b.y+b.h <= below
}

// The first answer to each question is straight below it, so that the way to the end is a line.
func TestFirstAnswersAreInLine(t *testing.T) {
	f := parsed(t, "flowchart TD\na{A?} -->|no| b{Is B much longer?}\na -->|yes| x\nb -->|no| c\nb -->|yes| y")
	centre := func(id string) float64 { return f.boxes[id].x + f.boxes[id].w/2 }
	if centre("a") != centre("b") || centre("b") != centre("c") || centre("x") <= centre("b") || centre("y") <= centre("c") {
		t.Errorf("a %.0f, b %.0f, c %.0f, x %.0f, y %.0f", centre("a"), centre("b"), centre("c"), centre("x"), centre("y"))
	}
}

func TestMessagesHaveRoom(t *testing.T) {
	s := &sequence{ids: map[string]int{"a": 0, "b": 1}, names: []string{"a", "b"}, messages: []message{{from: 1, to: 0, text: strings.Repeat("x", 30)}}}
	if places := s.places(); places[1]-places[0] < 30*letter {
		t.Errorf("the participants are %.0f apart", places[1]-places[0])
	}
}
