package status

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/archelon-io/archelon/internal/terminal"
)

// formWide is a table with all columns, beside the forms that all commands have.
const formWide = "wide"

// printer prints clusters.
type printer struct {
	form    string
	headers bool
	out     io.Writer
	now     func() time.Time
	// inRancher is whether Rancher is in another cluster, and so the table shows the state there.
	inRancher bool
}

// list is the form of several clusters in JSON and YAML.
type list struct {
	metav1.TypeMeta `json:",inline"`

	Items []Cluster `json:"items"`
	// Problems say what could not be looked at.
	Problems []string `json:"problems,omitempty"`
}

// all prints clusters.
func (p *printer) all(found list) error {
	switch p.form {
	case terminal.JSON, terminal.YAML:
		found.APIVersion, found.Kind = "archelon.io/v1alpha1", "ClusterStatusList"
		found.Items = append([]Cluster{}, found.Items...)
		return p.document(found)
	default:
		return p.table(found.Items)
	}
}

// one prints a cluster that has changed.
func (p *printer) one(cluster Cluster) error {
	switch p.form {
	case terminal.JSON, terminal.YAML:
		return p.document(cluster)
	default:
		return p.table([]Cluster{cluster})
	}
}

func (p *printer) document(value any) error { return terminal.Document(p.out, p.form, value) }

// The gap between columns, and how wide one is at least: rows that follow later are to stay below the others.
const (
	columnGap   = 3
	columnWidth = 6
)

// table prints a line for each cluster, below a headline the first time.
func (p *printer) table(clusters []Cluster) error {
	lines := tabwriter.NewWriter(p.out, columnWidth, 0, columnGap, ' ', 0)
	if p.headers {
		p.headers = false
		var names []string
		for _, column := range p.columns() {
			names = append(names, column.name)
		}
		_, _ = fmt.Fprintln(lines, strings.Join(names, "\t")) // Flush has the error.
	}
	for i := range clusters {
		cluster, cells := &clusters[i], []string{}
		for _, column := range p.columns() {
			cells = append(cells, column.of(cluster))
		}
		row(lines, cells)
	}
	return lines.Flush()
}

// row prints a line. Tenants have written most of it.
func row(lines io.Writer, cells []string) {
	for i := range cells {
		cells[i] = cmp.Or(terminal.Printable(cells[i]), "-")
	}
	_, _ = fmt.Fprintln(lines, strings.Join(cells, "\t")) // Flush has the error.
}

// column is one of a table.
type column struct {
	name string
	of   func(*Cluster) string
}

func (p *printer) columns() []column {
	all := []column{
		{"NAMESPACE", func(c *Cluster) string { return c.Namespace }},
		{"NAME", func(c *Cluster) string { return c.Name }},
		{"IMPORTED", func(c *Cluster) string { return c.Imported }},
		{"REASON", reasonOf},
		{"SINCE", func(c *Cluster) string {
			if c.Since == nil {
				return ""
			}
			return duration.HumanDuration(p.now().Sub(c.Since.Time))
		}},
		{"RANCHER CLUSTER", func(c *Cluster) string { return c.RancherCluster }},
	}
	if p.inRancher {
		all = append(all, column{"IN RANCHER", func(c *Cluster) string { return c.InRancher }})
	}
	all = append(all, column{"AGENT", func(c *Cluster) string { return c.Agent }}, column{"INSTANCE", func(c *Cluster) string { return c.Instance }})
	if p.form == formWide {
		all = append(all, column{"DELIVERY", func(c *Cluster) string { return c.Delivery }}, column{"FLEET", func(c *Cluster) string { return c.Fleet }}, column{"MESSAGE", func(c *Cluster) string { return c.Message }})
	}
	return all
}

// reasonOf is the reason, or why there is none.
func reasonOf(c *Cluster) string {
	switch {
	case c.Deleted:
		return "(deleted)"
	case c.CAPICluster == capiGone:
		return "(no CAPI cluster)"
	default:
		return c.Reason
	}
}
