package diagram

import (
	"fmt"
	"regexp"
)

// message is an arrow between two participants, or a note over them.
type message struct {
	from, to int
	text     string
	dotted   bool
	note     bool
}

// sequence is who says what to whom, in order.
type sequence struct {
	names    []string // as they are shown
	ids      map[string]int
	messages []message
}

var (
	participantLine = regexp.MustCompile(`^(?:participant|actor) (\w+)(?: as (.+))?$`)
	messageLine     = regexp.MustCompile(`^(\w+?)(--?>>)(\w+) ?: ?(.+)$`)
	noteLine        = regexp.MustCompile(`^[Nn]ote over (\w+)(?:, ?(\w+))? ?: ?(.+)$`)
)

func drawSequence(lines []string) (string, error) {
	s := &sequence{ids: map[string]int{}}
	for _, line := range lines {
		if !s.read(line) {
			return "", fmt.Errorf("sequence diagram: %q is neither a participant nor a message nor a note", line)
		}
	}
	return s.draw(), nil
}

// read takes a line, and reports whether it knows what it is.
func (s *sequence) read(line string) bool {
	if match := participantLine.FindStringSubmatch(line); match != nil {
		if number := s.participant(match[1]); match[2] != "" {
			s.names[number] = match[2]
		}
		return true
	}
	if match := messageLine.FindStringSubmatch(line); match != nil {
		s.messages = append(s.messages, message{from: s.participant(match[1]), to: s.participant(match[3]), text: match[4], dotted: match[2] == "-->>"})
		return true
	}
	match := noteLine.FindStringSubmatch(line)
	if match == nil {
		return false
	}
	note := message{from: s.participant(match[1]), text: match[3], note: true}
	if note.to = note.from; match[2] != "" {
		note.to = s.participant(match[2])
	}
	s.messages = append(s.messages, note)
	return true
}

func (s *sequence) participant(id string) int {
	if _, known := s.ids[id]; !known {
		s.ids[id] = len(s.names)
		s.names = append(s.names, id)
	}
	return s.ids[id]
}

// places returns where the participants stand: as near to each other as their names and messages allow.
func (s *sequence) places() []float64 {
	places := make([]float64, len(s.names))
	half := func(i int) float64 {
		w, _ := measure(wrap(s.names[i], wide))
		return w/2 + padding
	}
	if len(places) > 0 {
		places[0] = half(0)
	}
	for i := 1; i < len(places); i++ {
		places[i] = places[i-1] + max(half(i-1)+half(i)+24, 150)
		for _, m := range s.messages {
			if low, high := min(m.from, m.to), max(m.from, m.to); high == i && low < high {
				w, _ := measure(wrap(m.text, wide+8))
				places[i] = max(places[i], places[low]+w+24)
			}
		}
	}
	return places
}

func (s *sequence) draw() string {
	var c canvas
	places := s.places()
	head := lineHeight + 2*padding
	y := head + 12
	var rows canvas
	right := 0.0
	for number, m := range s.messages {
		lines := wrap(m.text, wide+8)
		w, h := measure(lines)
		x1, x2 := places[m.from], places[m.to]
		right = max(right, (x1+x2)/2+w/2+padding)
		switch {
		case m.note:
			low, high := min(x1, x2)-w/2-padding, max(x1, x2)+w/2+padding
			if x1 != x2 {
				low, high = min(min(x1, x2)-40, (x1+x2)/2-w/2-padding), max(max(x1, x2)+40, (x1+x2)/2+w/2+padding)
			}
			rows.add(`<rect class="note" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="6"/>`, low, y+6, high-low, h+10)
			rows.text("label", (low+high)/2, y+11+h/2, lines)
			y += h + 26
			right = max(right, high)
		case m.from == m.to:
			rows.label(x1, y+h/2, lines)
			y += h + 14
		default:
			direction := 1.0
			if x2 < x1 {
				direction = -1
			}
			rows.label((x1+x2)/2, y+h/2, lines)
			y += h + 8
			rows.add(`<path class="edge%s" d="M%.1f %.1f H%.1f"><title>%d</title></path>`, dotted(m.dotted), x1, y, x2-direction*8, number+1)
			rows.tip(x2, y, direction, 0)
			y += 16
		}
	}
	for i, x := range places {
		c.add(`<path class="lifeline" d="M%.1f %.1f V%.1f"/>`, x, head, y+8)
		lines := wrap(s.names[i], wide)
		w, _ := measure(lines)
		c.add(`<rect class="node" x="%.1f" y="0" width="%.1f" height="%.1f" rx="8"/>`, x-w/2-padding, w+2*padding, head)
		c.text("name", x, head/2, lines)
		right = max(right, x+w/2+padding)
	}
	c.WriteString(rows.String())
	return c.svg("sequence", right, y+8)
}

func dotted(yes bool) string {
	if yes {
		return " dotted"
	}
	return ""
}
