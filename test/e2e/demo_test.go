package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"

	"github.com/archelon-io/archelon/test/stage"
)

// demoPatience is how long the demo may take: it compiles, starts three control planes and tells two acts.
const demoPatience = 8 * time.Minute

// The demo is a program for people; what it promises them is tested like everything else.
var _ = Describe("The demo", Label("demo"), Ordered, ContinueOnFailure, func() {
	var program string

	BeforeAll(func(ctx context.Context) {
		program = filepath.Join(GinkgoT().TempDir(), "demo")
		build := exec.CommandContext(ctx, "go", "build", fmt.Sprintf("-race=%t", *race), "-o", program, "./hack/demo")
		build.Dir = stage.Root()
		out, err := build.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
	})

	It("tells both acts, checks itself and leaves nothing", func(ctx context.Context) {
		d := startDemo(program, "--once")
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gexec.Exit(0))
		out := string(d.session.Out.Contents())
		expectInOrder(out, append(append([]string{
			`(?m)^Preparing$`,
			`Building the manager .* \d+\.\d s`,
			`Starting a management cluster and two workload clusters .* \d+\.\d s`,
			`(?m)^Act 1: .*management\.cattle\.io/v3`,
		}, actOf(`management\.cattle\.io/v3 Cluster c-[bcdfghjklmnpqrstvwxz2456789]{5} created, display name "orders"`)...), append(append([]string{
			`(?m)^Act 2: .*provisioning\.cattle\.io/v1`,
		}, actOf(`provisioning\.cattle\.io/v1 Cluster team-blue/orders-capi created`)...),
			`(?m)^Cleaning up$`,
			`All was imported, connected and cleaned up again\.\n$`,
		)...)...)
		expectReadable(out)
		d.expectNothingLeft(ctx)
	})

	It("tells of servers for tenants, checks itself and leaves nothing", Label("nightly"), func(ctx context.Context) {
		d := startDemo(program, "hostclaim")
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gexec.Exit(0))
		out := string(d.session.Out.Contents())
		expectInOrder(out,
			`db +Associated=False \(NoBareMetalHost\)`, `Forbidden`,
			`server-1 +it belongs to the claim of team-green`, `server-1 +it boots with the user data of team-green`, `db +Ready=True`,
			`web +Associated=False \(NoBareMetalHost\)`,
			`kubectl delete hostclaim -n team-green db`, `db +the claim is gone`,
			`server-1 +it belongs to the claim of team-blue`, `server-1 +it boots with the user data of team-blue`, `web +Ready=True`,
			`far +RemoteSynced=True`, `server-9 +it boots with the user data of team-green`, `far +Ready=True`,
			`far +the claim is gone`, `nothing of the claims is left in either cluster .* \d+\.\d s`,
			`neither saw more than its\s+own claims\.\n$`,
		)
		expectReadable(out)
		d.expectNothingLeft(ctx)
	})

	DescribeTable("leaves no server when it is interrupted", Label("nightly"), func(ctx context.Context, end syscall.Signal) {
		d := startDemo(program, "hostclaim")
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gbytes.Say(`kubectl delete hostclaim`))
		d.session.Signal(end)
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gexec.Exit(130))
		Expect(string(d.session.Out.Contents())).NotTo(ContainSubstring("neither saw"))
		d.expectNothingLeft(ctx)
	},
		Entry("by Ctrl-C", syscall.SIGINT),
		Entry("by SIGTERM", syscall.SIGTERM),
	)

	It("fails and cleans up when the manager dies", Label("nightly"), func(ctx context.Context) {
		d := startDemo(program, "--once")
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gbytes.Say(`kubectl apply`))
		d.killManager(ctx)
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gexec.Exit(1))
		Expect(d.session.Out).To(gbytes.Say(`The last lines of the manager's log`))
		Expect(d.session.Err).To(gbytes.Say(`the manager has ended by itself`))
		Expect(string(d.session.Out.Contents())).NotTo(ContainSubstring("cleaned up again"))
		d.expectNothingLeft(ctx)
	})

	DescribeTable("cleans up when it is interrupted", Label("nightly"), func(ctx context.Context, moment string) {
		d := startDemo(program, "--once")
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gbytes.Say(moment))
		d.session.Interrupt()
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gexec.Exit(130))
		Expect(string(d.session.Out.Contents())).NotTo(ContainSubstring("cleaned up again"))
		d.expectNothingLeft(ctx)
	},
		Entry("while it builds", `Building the manager`),
		Entry("while control planes start", `Starting a management cluster`),
		Entry("in the middle of an import", `kubectl apply`),
	)

	It("ends when the program that started it is gone", Label("nightly"), func(ctx context.Context) {
		d := startDemo("/bin/sh", "-c", `"$0" --once & wait`, program)
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gbytes.Say(`Building the manager`))
		Expect(d.session.Command.Process.Kill()).To(Succeed())
		d.expectNothingLeft(ctx)
	})

	It("leaves nothing when it is killed", Label("nightly"), func(ctx context.Context) {
		d := startDemo(program, "--once")
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gbytes.Say(`kubectl apply`))
		d.session.Kill()
		d.expectNothingLeft(ctx)
	})

	It("stays up until it is told to end, and says how to look around", Label("nightly"), func(ctx context.Context) {
		d := startDemo(program)
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gbytes.Say(`Ctrl-C ends everything`))
		out, err := exec.CommandContext(ctx, "/bin/sh", "-ec", lookingAround(string(d.session.Out.Contents()))).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		Expect(string(out)).To(And(
			ContainSubstring("RancherImported"),
			ContainSubstring("orders-capi"),
			ContainSubstring("payments-capi"),
			ContainSubstring("cattle-cluster-agent"),
		))
		Consistently(d.session).ShouldNot(gexec.Exit())
		d.session.Terminate()
		Eventually(d.session).WithContext(ctx).WithTimeout(demoPatience).Should(gexec.Exit(0))
		d.expectNothingLeft(ctx)
	})
})

// actOf returns what an act has to print about cluster orders, in this order.
func actOf(created string) []string {
	imported := []string{
		`orders +` + created,
		`orders +registered: `,
		`orders +agent applied: `,
		`orders +RancherImported=True`,
	}
	steps := append([]string{
		`orders +label \S+=true is set on its Namespace`,
		`orders +CAPI: kubeconfig Secret written, control plane available`,
	}, imported...)
	steps = append(steps,
		`Type: +RancherImported\n +Status: +True\n +Reason: +Imported`,
		`Normal +Imported +Connected to Rancher as v[13] Rancher`,
		`Somebody deletes orders in Rancher`,
		`orders +annotation imported=true`,
		`orders +RancherImported=False \(RemovedInRancher\)`,
		`orders +the Rancher cluster is gone`,
		`orders +Rancher's clean-up has removed its agent`,
		`kubectl annotate .* imported-`,
	)
	steps = append(steps, imported...)
	return append(steps,
		`kubectl delete clusters\.cluster\.x-k8s\.io -n team-blue orders`,
		`orders +the CAPI cluster is gone`,
		`orders +the Rancher cluster is gone`,
		`orders +Rancher's clean-up has removed its agent`,
		`nothing is left in any of the three clusters .* \d+\.\d s`,
	)
}

// expectInOrder asserts that the patterns match one after the other.
func expectInOrder(text string, patterns ...string) {
	GinkgoHelper()
	for _, pattern := range patterns {
		found := regexp.MustCompile(pattern).FindStringIndex(text)
		Expect(found).NotTo(BeNil(), "%s is not in what follows:\n%s", pattern, text)
		text = text[found[1]:]
	}
}

// expectReadable asserts that people without a terminal can read it, and that nobody reads what is secret.
func expectReadable(text string) {
	GinkgoHelper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "https://") {
			continue // A URL that is broken leads nowhere.
		}
		Expect(len(strings.TrimRight(line, "\n"))).To(BeNumerically("<=", 100), line)
	}
	Expect(text).NotTo(ContainSubstring("\x1b"))
	Expect(text).NotTo(MatchRegexp(`[a-z0-9]{54}|eyJ[A-Za-z0-9_-]{10}|-data:|BEGIN `))
}

// lookingAround returns the commands that the demo suggests, but for those that change something or never end.
func lookingAround(text string) string {
	_, text, _ = strings.Cut(text, "\nLook around\n")
	var commands []string
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "    "); ok && !regexp.MustCompile(`^(tail|kubectl (label|delete)) `).MatchString(command) {
			commands = append(commands, command)
		}
	}
	return strings.Join(commands, "")
}

// demo is a running demo whose files, and so the command lines of its programs, are below a directory of its own.
type demo struct {
	dir     string
	session *gexec.Session
}

func startDemo(program string, args ...string) *demo {
	GinkgoHelper()
	d := &demo{dir: GinkgoT().TempDir()}
	cmd := exec.Command(program, args...) //nolint:noctx // it ends by a signal that it can act on, or by itself
	cmd.Dir = stage.Root()
	cmd.Env = append(os.Environ(), "TMPDIR="+d.dir)
	var err error
	d.session, err = gexec.Start(cmd, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		d.session.Interrupt()
		Eventually(d.session).WithTimeout(demoPatience).Should(gexec.Exit())
	})
	return d
}

// processes returns the command lines of the demo's programs by their PIDs.
func (d *demo) processes(ctx context.Context) map[int]string {
	GinkgoHelper()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,args=").Output()
	Expect(err).NotTo(HaveOccurred())
	found := map[int]string{}
	for line := range strings.Lines(string(out)) {
		number, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.Contains(args, d.dir) {
			continue
		}
		pid, err := strconv.Atoi(number)
		Expect(err).NotTo(HaveOccurred())
		found[pid] = args
	}
	return found
}

// killManager ends the manager as a crash would.
func (d *demo) killManager(ctx context.Context) {
	GinkgoHelper()
	var pids []int
	for pid, args := range d.processes(ctx) {
		if program, _, _ := strings.Cut(args, " "); filepath.Base(program) == "archelon" {
			pids = append(pids, pid)
		}
	}
	Expect(pids).To(HaveLen(1))
	Expect(syscall.Kill(pids[0], syscall.SIGKILL)).To(Succeed())
}

func (d *demo) expectNothingLeft(ctx context.Context) {
	GinkgoHelper()
	Eventually(d.processes).WithContext(ctx).WithTimeout(demoPatience).Should(BeEmpty())
	Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(d.dir) }).Should(BeEmpty())
}
