// Package v1alpha1 holds the public vocabulary of Archelon: the labels, annotations
// and finalizers that it reads and writes on objects of other projects, and the
// condition types and reasons that it reports.
package v1alpha1
