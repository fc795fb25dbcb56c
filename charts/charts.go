// Package charts has of the chart what the program itself reads. It is not in the chart, which has no Go.
package charts

import "embed"

//go:embed archelon/files/permissions/*.yaml
var permissions embed.FS

// Permissions returns what each package needs, as hack/rbac has generated it from the markers there. The chart creates
// its roles from these files.
func Permissions() embed.FS { return permissions }
