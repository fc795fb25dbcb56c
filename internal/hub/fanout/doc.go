// Package fanout has many management clusters share one cache of Rancher's cluster. Each has a view of it, with the
// Rancher clusters of its own. Of what happens in Rancher's cluster a view learns what concerns its management cluster:
// an event is looked at once, however many there are.
package fanout
