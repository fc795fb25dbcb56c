package diagram

import "slices"

const (
	rankGap  = 52.0 // between ranks, where edges and their labels are
	crossGap = 26.0 // between boxes of a rank
	titleGap = 30.0 // above the boxes of a group
)

// layOut places the boxes of a group within it, innermost groups first: each box is in a rank behind those that lead to
// it, and beside the one that leads to it first.
func (f *flow) layOut(group *box) {
	for _, b := range group.inner {
		if b.shape == "group" {
			f.layOut(b)
			continue
		}
		w, h := measure(b.lines)
		b.w, b.h = w+2*padding, h+2*padding-4
	}
	ranks, edges := f.detour(group, rank(group.inner, f.within(group)))
	along := 0.0
	for i, boxes := range ranks {
		f.spread(boxes, edges)
		deep := 0.0
		for _, b := range boxes {
			deep = max(deep, f.deep(b))
		}
		if i > 0 {
			along += f.gapBefore(boxes, edges)
		}
		for _, b := range boxes {
			f.setAlong(b, along+(deep-f.deep(b))/2)
		}
		along += deep
	}
	f.frame(group)
}

// link is an edge between two boxes of one group. Edges of inner boxes count for the ones that they are in.
type link struct {
	from, to *box
	label    []string
	edge     *edge
}

// part returns the box of a group that a box is in, or nil.
func (b *box) part(of *box) *box {
	for of != nil && of.parent != b {
		of = of.parent
	}
	return of
}

// within returns the edges between the boxes of a group.
func (f *flow) within(group *box) []link {
	var links []link
	for _, e := range f.edges {
		if from, to := group.part(e.from), group.part(e.to); from != nil && to != nil && from != to && !e.back {
			links = append(links, link{from, to, e.label, e})
		}
	}
	return links
}

// turnBack finds the edges that close a circle between the boxes of a group.
func (f *flow) turnBack(group *box) {
	links, state := f.within(group), map[*box]int{}
	var visit func(*box)
	visit = func(b *box) {
		state[b] = 1
		for _, l := range links {
			if l.from == b && state[l.to] == 1 {
				l.edge.back = true
			} else if l.from == b && state[l.to] == 0 {
				visit(l.to)
			}
		}
		state[b] = 2
	}
	for _, b := range group.inner {
		if state[b] == 0 {
			visit(b)
		}
	}
}

// rank puts each box behind those that lead to it.
func rank(boxes []*box, links []link) [][]*box {
	ranks, deepest := map[*box]int{}, 0
	for range boxes { // There are no circles, so a way has fewer links than there are boxes.
		for _, l := range links {
			ranks[l.to] = max(ranks[l.to], ranks[l.from]+1)
			deepest = max(deepest, ranks[l.to])
		}
	}
	rows := make([][]*box, deepest+1)
	for _, b := range boxes {
		rows[ranks[b]] = append(rows[ranks[b]], b)
	}
	return rows
}

// detour keeps room beside the boxes for edges that pass by them: those that skip a rank, and those
// that leave or enter the group.
func (f *flow) detour(group *box, ranks [][]*box) ([][]*box, []link) {
	rankOf := map[*box]int{}
	for i, row := range ranks {
		for _, b := range row {
			rankOf[b] = i
		}
	}
	pass := func(first, last int) []*box {
		var ways []*box
		for i := first; i <= last; i++ {
			way := &box{shape: "way", parent: group, w: 16, h: 16}
			ways, ranks[i], group.inner = append(ways, way), append(ranks[i], way), append(group.inner, way)
		}
		return ways
	}
	var all []link
	chain := func(label []string, boxes ...*box) {
		for i, from := range boxes[:max(0, len(boxes)-1)] {
			l := link{from: from, to: boxes[i+1]}
			if i == (len(boxes)-2)/2 {
				l.label = label
			}
			all = append(all, l)
		}
	}
	for _, e := range f.edges {
		from, to := group.part(e.from), group.part(e.to)
		switch {
		case e.back || group == f.top && (from == nil || to == nil):
		case from != nil && to != nil && from != to:
			e.between = pass(rankOf[from]+1, rankOf[to]-1)
			chain(e.label, slices.Concat([]*box{from}, e.between, []*box{to})...)
		case from != nil && to == nil && e.to != group:
			ways := pass(rankOf[from]+1, len(ranks)-1)
			e.leaving = append(e.leaving, ways...)
			chain(nil, slices.Concat([]*box{from}, ways)...)
		case to != nil && from == nil && e.from != group:
			ways := pass(0, rankOf[to]-1)
			e.entering = append(ways, e.entering...)
			chain(nil, slices.Concat(ways, []*box{to})...)
		}
	}
	return ranks, all
}

// spread places the boxes of a rank beside each other. The first that a box leads to is in line
// with it, and the others follow.
func (f *flow) spread(boxes []*box, edges []link) {
	wanted := map[*box]float64{}
	for _, b := range boxes {
		for _, e := range edges {
			if e.to != b || slices.Contains(boxes, e.from) {
				continue
			}
			line := f.cross(e.from) + f.broad(e.from)/2
			if first := slices.IndexFunc(edges, func(o link) bool { return o.from == e.from }); edges[first].to != b {
				line++ // Behind the first, in the order of the text.
			}
			wanted[b] = line
			break
		}
	}
	slices.SortStableFunc(boxes, func(a, b *box) int {
		switch {
		case wanted[a] < wanted[b]:
			return -1
		case wanted[a] > wanted[b]:
			return 1
		default:
			return 0
		}
	})
	end := 0.0
	for i, b := range boxes {
		place := wanted[b] - f.broad(b)/2
		if i > 0 {
			place = max(place, end+crossGap)
		}
		f.setCross(b, place)
		end = place + f.broad(b)
	}
}

// gapBefore returns the room before a rank: the labels of the edges that lead there have to fit.
func (f *flow) gapBefore(boxes []*box, edges []link) float64 {
	gap := rankGap
	for _, e := range edges {
		if slices.Contains(boxes, e.to) {
			w, h := measure(e.label)
			if f.across {
				gap = max(gap, w+36)
			} else {
				gap = max(gap, h+30)
			}
		}
	}
	return gap
}

// frame moves the boxes of a group to its upper left corner, below its title, and gives the group its size.
func (f *flow) frame(group *box) {
	if len(group.inner) == 0 {
		group.w, group.h = measure(group.lines)
		return
	}
	left, above := group.inner[0].x, group.inner[0].y
	for _, b := range group.inner {
		left, above = min(left, b.x), min(above, b.y)
	}
	space, title := 0.0, 0.0
	if group != f.top {
		space, title = padding, titleGap-padding
		w, _ := measure(group.lines)
		group.w = 1.15*w + 2*padding // It is bold.
	}
	for _, b := range group.inner {
		b.x += space - left
		b.y += space + title - above
		group.w, group.h = max(group.w, b.x+b.w+space), max(group.h, b.y+b.h+space)
	}
}

// Along is the direction of the chart, cross the other one.

func (f *flow) deep(b *box) float64 {
	if f.across {
		return b.w
	}
	return b.h
}

func (f *flow) broad(b *box) float64 {
	if f.across {
		return b.h
	}
	return b.w
}

func (f *flow) cross(b *box) float64 {
	if f.across {
		return b.y
	}
	return b.x
}

func (f *flow) setAlong(b *box, place float64) {
	if f.across {
		b.x = place
	} else {
		b.y = place
	}
}

func (f *flow) setCross(b *box, place float64) {
	if f.across {
		b.y = place
	} else {
		b.x = place
	}
}
