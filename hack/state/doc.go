// Package state shows that kube-state-metrics understands what examples/kube-state-metrics.yaml
// tells it, and what comes of it.
package state
