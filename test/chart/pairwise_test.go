package chart_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// value is one of those of a dimension.
type value struct{ dimension, value int }

// couple is two values of different dimensions, that of the earlier one first.
type couple struct{ one, other value }

func coupleOf(a, b value) couple {
	if a.dimension > b.dimension {
		a, b = b, a
	}
	return couple{a, b}
}

// couples returns all of them.
func couples(sizes []int) []couple {
	var values []value
	for dimension, size := range sizes {
		for v := range size {
			values = append(values, value{dimension, v})
		}
	}
	var all []couple
	for i, a := range values {
		for _, b := range values[i+1:] {
			if a.dimension != b.dimension {
				all = append(all, couple{a, b})
			}
		}
	}
	return all
}

// pairwise returns rows with one value for each dimension, of which sizes says how many values it has, so that any two
// values of different dimensions are together in some row. It is the greedy way: each row begins with a pair that no
// row has yet, and takes of the other dimensions what brings most such pairs.
func pairwise(sizes []int) [][]int {
	missing := map[couple]bool{}
	for _, p := range couples(sizes) {
		missing[p] = true
	}
	var rows [][]int
	for _, first := range couples(sizes) {
		if !missing[first] {
			continue
		}
		chosen := []value{first.one, first.other}
		for dimension, size := range sizes {
			if dimension != first.one.dimension && dimension != first.other.dimension {
				chosen = append(chosen, best(dimension, size, chosen, missing))
			}
		}
		row := make([]int, len(sizes))
		for i, c := range chosen {
			row[c.dimension] = c.value
			for _, other := range chosen[:i] {
				delete(missing, coupleOf(c, other))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// best returns the value of a dimension that brings most of the missing pairs together with what is chosen.
func best(dimension, size int, chosen []value, missing map[couple]bool) value {
	var found value
	most := -1
	for v := range size {
		candidate, gain := value{dimension, v}, 0
		for _, c := range chosen {
			if missing[coupleOf(candidate, c)] {
				gain++
			}
		}
		if gain > most {
			found, most = candidate, gain
		}
	}
	return found
}

func TestPairwise(t *testing.T) {
	cases := map[string]struct {
		reason string
		sizes  []int
		most   int
	}{
		"Nothing":  {"Without dimensions there is nothing to render.", nil, 0},
		"Two":      {"Two dimensions have no fewer rows than pairs.", []int{2, 3}, 6},
		"Single":   {"What has one value costs nothing.", []int{1, 2, 1, 3}, 6},
		"Today":    {"The chart of today.", []int{2, 2, 2, 2, 2, 2, 3, 2}, 12},
		"FourMore": {"Four more gates multiply nothing.", []int{2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2}, 14},
		"Large":    {"Rows grow with the two largest dimensions, and hardly with their number.", []int{4, 3, 4, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 24},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			rows := pairwise(tc.sizes)
			if len(rows) > tc.most {
				t.Errorf("%s\n%d rows, want at most %d", tc.reason, len(rows), tc.most)
			}
			want := map[couple]bool{}
			for _, c := range couples(tc.sizes) {
				want[c] = true
			}
			if diff := cmp.Diff(want, together(rows), cmp.AllowUnexported(couple{}, value{})); diff != "" {
				t.Errorf("%s\nany two values have to be together, and there are no others (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// together returns which values are in some row together.
func together(rows [][]int) map[couple]bool {
	seen := map[couple]bool{}
	for _, row := range rows {
		for i, a := range row {
			for j, b := range row[:i] {
				seen[coupleOf(value{i, a}, value{j, b})] = true
			}
		}
	}
	return seen
}
