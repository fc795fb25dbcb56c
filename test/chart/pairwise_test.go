package chart_test

import (
	"fmt"
	"testing"
)

// pairwise returns rows with one value for each dimension, of which sizes says how many values it has, so that any two values of different dimensions
// are together in some row. It is the greedy way: each row begins with a pair that no row has yet, and takes of the other dimensions what brings most
// such pairs.
func pairwise(sizes []int) [][]int {
	type value struct{ dimension, value int }
	type pair struct{ one, other value } // one is of the earlier dimension
	join := func(a, b value) pair {
		if a.dimension > b.dimension {
			a, b = b, a
		}
		return pair{a, b}
	}
	var order []pair
	missing := map[pair]bool{}
	for i := range sizes {
		for j := i + 1; j < len(sizes); j++ {
			for a := range sizes[i] {
				for b := range sizes[j] {
					p := pair{value{i, a}, value{j, b}}
					order, missing[p] = append(order, p), true
				}
			}
		}
	}
	var rows [][]int
	for _, first := range order {
		if !missing[first] {
			continue
		}
		row := make([]int, len(sizes))
		chosen := []value{first.one, first.other}
		for dimension := range sizes {
			if dimension == first.one.dimension || dimension == first.other.dimension {
				continue
			}
			best, most := 0, -1
			for candidate := range sizes[dimension] {
				gain := 0
				for _, c := range chosen {
					if missing[join(value{dimension, candidate}, c)] {
						gain++
					}
				}
				if gain > most {
					best, most = candidate, gain
				}
			}
			chosen = append(chosen, value{dimension, best})
		}
		for i, c := range chosen {
			row[c.dimension] = c.value
			for _, other := range chosen[:i] {
				delete(missing, join(c, other))
			}
		}
		rows = append(rows, row)
	}
	return rows
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
			seen := map[string]bool{}
			for _, row := range rows {
				for i, a := range row {
					if a < 0 || a >= tc.sizes[i] {
						t.Fatalf("%s\nrow %v has no value for dimension %d", tc.reason, row, i)
					}
					for j := i + 1; j < len(row); j++ {
						seen[fmt.Sprint(i, a, j, row[j])] = true
					}
				}
			}
			want := 0
			for i := range tc.sizes {
				for j := i + 1; j < len(tc.sizes); j++ {
					want += tc.sizes[i] * tc.sizes[j]
				}
			}
			if len(seen) != want {
				t.Errorf("%s\n%d pairs of values are together in some row, want %d", tc.reason, len(seen), want)
			}
		})
	}
}
