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
}

// list is the form of several clusters in JSON and YAML.
type list struct {
	metav1.TypeMeta `json:",inline"`

	Items []Cluster `json:"items"`
}

// all prints clusters.
func (p *printer) all(clusters []Cluster) error {
	switch p.form {
	case terminal.JSON, terminal.YAML:
		return p.document(list{
			TypeMeta: metav1.TypeMeta{APIVersion: "archelon.io/v1alpha1", Kind: "ClusterStatusList"},
			Items:    append([]Cluster{}, clusters...),
		})
	default:
		return p.table(clusters)
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
	line := func(cells []string) error {
		if p.form != formWide {
			cells = cells[:narrow]
		}
		for i := range cells {
			cells[i] = cmp.Or(terminal.Printable(cells[i]), "-")
		}
		_, err := fmt.Fprintln(lines, strings.Join(cells, "\t"))
		return err
	}
	if p.headers {
		p.headers = false
		if err := line(columns()); err != nil {
			return err
		}
	}
	for i := range clusters {
		if err := line(p.cells(clusters[i])); err != nil {
			return err
		}
	}
	return lines.Flush()
}

// narrow is how many columns there are without -o wide.
const narrow = 8

func columns() []string {
	return []string{
		"NAMESPACE", "NAME", "IMPORTED", "REASON", "SINCE", "RANCHER CLUSTER", "AGENT", "INSTANCE", "FLEET", "MESSAGE",
	}
}

func (p *printer) cells(c Cluster) []string {
	since := ""
	if c.Since != nil {
		since = duration.HumanDuration(p.now().Sub(c.Since.Time))
	}
	reason := c.Reason
	if c.Deleted {
		reason = "(deleted)"
	}
	return []string{c.Namespace, c.Name, c.Imported, reason, since, c.RancherCluster, c.Agent, c.Instance, c.Fleet, c.Message}
}
