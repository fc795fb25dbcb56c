package diagram

import (
	"fmt"
	"html"
	"strings"
)

// groups returns the groups, outer ones first.
func (b *box) groups() []*box {
	var all []*box
	for _, inner := range b.inner {
		if inner.shape == "group" {
			all = append(append(all, inner), inner.groups()...)
		}
	}
	return all
}

func (f *flow) draw() string {
	var c canvas
	for _, group := range f.top.groups() {
		c.add(`<rect class="group" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="10"/>`, group.x, group.y, group.w, group.h)
		c.add(`<text class="title" x="%.1f" y="%.1f">%s</text>`, group.x+padding, group.y+padding+4, html.EscapeString(strings.Join(group.lines, " ")))
	}
	var labels canvas
	for _, e := range f.edges {
		f.connect(&c, &labels, e)
	}
	for _, b := range f.nodes(f.top) {
		round := map[string]float64{"question": min(b.h/2, 22), "round": b.h / 2}[b.shape]
		c.add(`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f"/>`, b.shape, b.x, b.y, b.w, b.h, max(round, 8))
		c.text("name", b.x+b.w/2, b.y+b.h/2, b.lines)
	}
	c.WriteString(labels.String())
	return c.svg("flow", f.top.w, f.top.h)
}

// nodes returns the boxes that are seen and are no groups.
func (f *flow) nodes(group *box) []*box {
	var all []*box
	for _, b := range group.inner {
		switch b.shape {
		case "group":
			all = append(all, f.nodes(b)...)
		case "way":
		default:
			all = append(all, b)
		}
	}
	return all
}

// point is a place in the picture.
type point struct{ x, y float64 }

// connect draws an edge as curves that leave and arrive in the direction of the chart. One that
// goes back does so in a bow.
func (f *flow) connect(c, labels *canvas, e *edge) {
	if e.back {
		f.bow(c, labels, e)
		return
	}
	from, to := f.ends(e)
	points, labelled := f.points(e, from, to)
	tip := point{0, 1}
	if f.across {
		tip = point{1, 0}
	}
	var path strings.Builder
	fmt.Fprintf(&path, "M%.1f %.1f", from.x, from.y)
	for i, a := range points[:len(points)-1] {
		b := points[i+1]
		c1, c2 := point{a.x, (a.y + b.y) / 2}, point{b.x, (a.y + b.y) / 2}
		if f.across {
			c1, c2 = point{(a.x + b.x) / 2, a.y}, point{(a.x + b.x) / 2, b.y}
		}
		if i == labelled && len(e.label) > 0 {
			labels.label((a.x+b.x)/2, (a.y+b.y)/2, e.label)
		}
		if i == len(points)-2 {
			b = point{b.x - 8*tip.x, b.y - 8*tip.y} // The line ends in the tip.
		}
		fmt.Fprintf(&path, " C%.1f %.1f %.1f %.1f %.1f %.1f", c1.x, c1.y, c2.x, c2.y, b.x, b.y)
	}
	c.add(`<path class="edge%s" d="%s"/>`, dotted(e.dotted), path.String())
	c.tip(to.x, to.y, tip.x, tip.y)
}

// points returns where an edge passes, and the one behind which its label stands: between the groups that it leaves and
// enters, where there is room for it.
func (f *flow) points(e *edge, from, to point) (points []point, labelled int) {
	points = []point{from}
	add := func(ways []*box) {
		for _, way := range ways {
			points = append(points, point{way.x + way.w/2, way.y + way.h/2})
		}
	}
	add(e.leaving)
	if group, last := e.from.outside(e.to), points[len(points)-1]; group != e.from && f.across {
		points = append(points, point{group.x + group.w, last.y})
	} else if group != e.from {
		points = append(points, point{last.x, group.y + group.h})
	}
	labelled = len(points) - 1 + len(e.between)/2
	add(e.between)
	first := to
	if len(e.entering) > 0 {
		first = point{e.entering[0].x + e.entering[0].w/2, e.entering[0].y + e.entering[0].h/2}
	}
	if group := e.to.outside(e.from); group != e.to && f.across {
		points = append(points, point{group.x, first.y})
	} else if group != e.to {
		points = append(points, point{first.x, group.y})
	}
	add(e.entering)
	return append(points, to), labelled
}

// outside returns the outermost box around one that another is not in.
func (b *box) outside(other *box) *box {
	outer := b
	for up := b.parent; up != nil && up.part(other) == nil; up = up.parent {
		outer = up
	}
	return outer
}

// bow goes around below, or to the right of a chart that goes down.
func (f *flow) bow(c, labels *canvas, e *edge) {
	from, to := point{e.from.x + e.from.w/2, e.from.y + e.from.h}, point{e.to.x + e.to.w/2, e.to.y + e.to.h}
	low := max(from.y, to.y, f.low(e)) + 50
	c1, c2, tip := point{from.x, low}, point{to.x, low}, point{0, -1}
	if !f.across {
		from, to = point{e.from.x + e.from.w, e.from.y + e.from.h/2}, point{e.to.x + e.to.w, e.to.y + e.to.h/2}
		far := max(from.x, to.x, f.low(e)) + 50
		c1, c2, tip = point{far, from.y}, point{far, to.y}, point{-1, 0}
	}
	c.add(`<path class="edge%s" d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f"/>`, dotted(e.dotted), from.x, from.y, c1.x, c1.y, c2.x, c2.y, to.x-8*tip.x, to.y-8*tip.y)
	c.tip(to.x, to.y, tip.x, tip.y)
	middle := point{(from.x + 3*c1.x + 3*c2.x + to.x) / 8, (from.y + 3*c1.y + 3*c2.y + to.y) / 8}
	f.top.w, f.top.h = max(f.top.w, middle.x+margin), max(f.top.h, middle.y+margin)
	if len(e.label) > 0 {
		labels.label(middle.x, middle.y, e.label)
	}
}

// low returns how far the boxes between the ends of an edge reach, below or to the right.
func (f *flow) low(e *edge) float64 {
	low := 0.0
	for _, b := range f.nodes(f.top) {
		centre, reach, one, other := b.x+b.w/2, b.y+b.h, e.from.x+e.from.w/2, e.to.x+e.to.w/2
		if !f.across {
			centre, reach, one, other = b.y+b.h/2, b.x+b.w, e.from.y+e.from.h/2, e.to.y+e.to.h/2
		}
		if centre >= min(one, other) && centre <= max(one, other) {
			low = max(low, reach)
		}
	}
	return low
}

// ends returns where an edge begins and ends. Edges share a side of a box, in the order of where they go.
func (f *flow) ends(e *edge) (from, to point) {
	centre := func(b *box) float64 { return f.cross(b) + f.broad(b)/2 }
	next := func(e *edge) *box { return append(e.ways(), e.to)[0] }
	last := func(e *edge) *box { return append([]*box{e.from}, e.ways()...)[len(e.ways())] }
	share := func(same func(*edge) bool, other func(*edge) *box) float64 {
		before, all := 0, 0
		for _, o := range f.edges {
			if o.back || !same(o) {
				continue
			}
			all++
			if centre(other(o)) < centre(other(e)) {
				before++
			}
		}
		return float64(before+1) / float64(all+1)
	}
	start := share(func(o *edge) bool { return o.from == e.from }, next)
	end := share(func(o *edge) bool { return o.to == e.to }, last)
	if f.across {
		return point{e.from.x + e.from.w, e.from.y + e.from.h*start}, point{e.to.x, e.to.y + e.to.h*end}
	}
	from, to = point{e.from.x + e.from.w*start, e.from.y + e.from.h}, point{e.to.x + e.to.w*end, e.to.y}
	if a, b := centre(e.from), centre(e.to); len(e.ways()) == 0 && a-b < 1 && b-a < 1 {
		from.x, to.x = a, b // What goes straight on does so from the middle: the eye follows it.
	}
	return from, to
}
