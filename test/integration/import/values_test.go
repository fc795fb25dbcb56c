package import_test

import (
	"flag"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// valuesFile has the managers of all scenarios run with further features of the chart, but where a scenario is about other values.
var valuesFile = flag.String("archelon.values", "", "a `file` with further values of the chart")

// furtherValues returns the values of the file, nil without one.
func furtherValues() map[string]any {
	GinkgoHelper()
	if *valuesFile == "" {
		return nil
	}
	content, err := os.ReadFile(*valuesFile)
	Expect(err).NotTo(HaveOccurred())
	values := map[string]any{}
	Expect(yaml.UnmarshalStrict(content, &values)).To(Succeed())
	return values
}
