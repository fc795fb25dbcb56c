// Package simulation is a small model of a Kubernetes API server and of what stands between it and a controller:
// optimistic locks, caches that lag by any number of events, answers that get lost, and processes that die before or
// after a write. A controller runs in it as it is, with its own reads, decisions and writes. A test moves the parts in
// any order, in one goroutine, and looks after each step whether what must never happen has happened.
//
// A cache delivers the events of one kind in order, and those of two kinds in any order to each other, as informers do.
package simulation
