package importer

import "fmt"

// EarlyImport says which Rancher clusters are created before the control planes of their CAPI Clusters are available.
type EarlyImport string

const (
	// EarlyNever is for none, whatever the annotation of a CAPI Cluster asks for. The empty string is the same.
	EarlyNever EarlyImport = "Never"
	// EarlyOnRequest is for those of CAPI Clusters whose annotation asks for it.
	EarlyOnRequest EarlyImport = "OnRequest"
	// EarlyAlways is for those of all CAPI Clusters whose annotation does not say "false".
	EarlyAlways EarlyImport = "Always"
)

// Validate fails if it is none of these.
func (e EarlyImport) Validate() error {
	switch e {
	case EarlyNever, EarlyOnRequest, EarlyAlways:
		return nil
	}
	return fmt.Errorf("%q is none of %s, %s and %s", string(e), EarlyNever, EarlyOnRequest, EarlyAlways)
}

// some reports whether it may be one.
func (e EarlyImport) some() bool { return e == EarlyOnRequest || e == EarlyAlways }
