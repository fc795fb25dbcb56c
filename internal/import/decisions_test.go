package importer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var writeDecisions = flag.Bool("archelon.decisions", false, "write the page about decisions")

// situations are rows of TestDecide in words, for the page. Each is about one intent.
func situations() [][2]string {
	return [][2]string{
		{"Outside", "It is in a namespace of another instance."},
		{"Withdrawn", "Its namespace was taken from this instance while that runs."},
		{"Kept", "This instance selects its namespace now, and the one that did before has yet to leave it."},
		{"Behind", "The cache has yet to show what was just written to it."},
		{"Paused", "It is paused."},
		{"Stranger", "No label selects it, and it is not imported."},
		{"StrangerInvalid", "The import label of its namespace is no boolean."},
		{"GoneDeleted", "It is gone, and its Rancher cluster is being deleted."},
		{"GoneLostConfirmed", "It vanished together with our finalizer, and its Rancher cluster stands."},
		{"GoneRecordStays", "It is gone without our having seen it, and its Rancher cluster stands: it may be restored from a backup."},
		{"TheirsSettled", "Its watch-filter label is not ours."},
		{"TheirsRuns", "The same, its Rancher cluster was deleted, and the instance that imported it runs."},
		{"TheirsNobody", "The same, and that instance does not run."},
		{"RelabelledLets", "The labels of its namespace changed, so that this instance does not select it any more."},
		{"RelabelledLeft", "The same, and it names no instance."},

		{"Delete", "It is being deleted, and the cache does not show its Rancher cluster."},
		{"DeleteRecord", "It is being deleted, and has a Rancher cluster."},
		{"DeleteForeign", "It is being deleted, and the Rancher cluster is that of an earlier CAPI cluster of its name."},
		{"DeleteWebhook", "Rancher's webhook does not answer."},
		{"DeleteNoWebhook", "The same for half a minute."},
		{"DeleteV1Twin", "Rancher would delete another CAPI cluster together with the v1 Rancher cluster."},
		{"DeleteTakesOver", "Another instance worked on it before."},
		{"Unimport", "The import label says false."},
		{"UnimportV1Twin", "The same, and Rancher would delete another CAPI cluster together with the v1 Rancher cluster."},

		{"Removed", "Its Rancher cluster is being deleted in Rancher."},
		{"RemovedOne", "The same, and it has another Rancher cluster."},
		{"RemovedOther", "Another Rancher cluster of it is being deleted."},
		{"BlockedStops", "It has annotation imported, and no Rancher cluster."},
		{"Assigned", "It is assigned to Rancher Turtles, and has no Rancher cluster."},
		{"TurtlesRuns", "Rancher Turtles runs."},
		{"TurtlesMistake", "Annotation managed-by names no importer."},
		{"PrincipalNo", "Its infrastructure may not use its identity."},
		{"TurtlesAdopt", "Turtles imported it, and is to be taken over from."},
		{"TurtlesAdoptTwice", "The same, and Turtles left two Rancher clusters."},
		{"TurtlesAdoptKind", "The same, and the Rancher cluster is not of the kind of new imports."},
		{"TurtlesBack", "Turtles has put its finalizer back, and runs."},
		{"TurtlesTouched", "Turtles holds it, and is not to be taken over from."},
		{"NoControlPlane", "It has no Rancher cluster, and its control plane is not available."},
		{"NamesakeOther", "A v1 Rancher cluster of another CAPI cluster has its name."},
		{"NamesakeHidden", "A v1 Rancher cluster that somebody created in Rancher has its name."},
		{"NameHeld", "Another Rancher cluster has its display name."},
		{"NameReserved", "Another import is about to get its display name."},
		{"NameInvalid", "An annotation has a value that cannot be used."},
		{"NameAhead", "Nothing stands in the way of its import."},
		{"NameOfOwn", "It has a Rancher cluster that it does not name."},
		{"NameForged", "The name on it is none that we may have chosen."},
		{"NameWaits", "Its earlier Rancher cluster is still being deleted."},
		{"RecordClaimed", "The name of its Rancher cluster was just written on it."},
		{"Record", "The name was written on it earlier, and the cache shows no Rancher cluster of the name."},
		{"RecordChanged", "The API server has another version of it, which forbids the import."},
		{"RecordAwaited", "Its Rancher cluster was just created, and the cache has yet to show it."},
		{"RecordOthersGo", "A Rancher cluster that is not its own has the name, and is being deleted."},
		{"RecordRename", "A Rancher cluster that is not its own has the name."},
		{"RecordNoName", "The same, and no other name is left."},
		{"KindNotThere", "It names a Rancher cluster of the other kind, which does not exist."},
		{"KindTwice", "It has Rancher clusters of both kinds."},
		{"KindStays", "Its Rancher cluster is not of the kind of new imports."},
		{"Sync", "Labels or settings have changed."},
		{"SyncHolds", "Somebody took our finalizer off its Rancher cluster."},
		{"NotYet", "Rancher has yet to create its v3 Rancher cluster."},
		{"V1Foreign", "The v3 Rancher cluster behind its v1 Rancher cluster was not made from that."},
		{"RenameFree", "It asks for another display name, which is free."},
		{"RenameTaken", "It asks for another display name, which is not free."},
		{"NameOlder", "An older Rancher cluster has its display name."},
		{"NoRegistration", "Rancher has no server-url, and so no registration."},
		{"AgentHalf", "Rancher is not ready for its agent, and the installation may begin without the Deployment."},
		{"AgentHalfRuns", "The same, and all but the Deployment is there."},
		{"AgentAhead", "Rancher is not ready for its agent, and enough other installations have begun."},
		{"AgentWork", "Its agent has never connected, and all that is needed is there."},
		{"AgentRuns", "The same, and the agent is being installed."},
		{"AgentInstalled", "The agent is installed, and has not connected yet."},
		{"AgentFailed", "The installation failed."},
		{"AgentInGrace", "Its agent was disconnected a moment ago."},
		{"AgentManual", "It was never connected, and other means install its agent."},
		{"AgentManualLost", "It was connected, Rancher reports its agent as lost, and other means install that."},
		{"AgentLost", "Its agent is disconnected."},
		{"AgentLostDone", "The same, and the agent was looked at."},
		{"AgentTaken", "Its agent is connected, and was taken over by annotation."},
		{"Settled", "Its agent is connected."},
	}
}

// follows is a decision for people: the rule, and what it does or how it ends.
func follows(d Decision) (rule, text string) {
	_, text, _ = strings.Cut(inOneLine(d), " | ")
	if d.Phase != "" {
		text = strings.TrimPrefix(text, d.Phase+": ")
		rule = "`" + d.Phase + "`"
	}
	switch {
	case d.Outcome.IsDone() && d.ends() && d.Intent == intentImport:
		text = "it is imported: `RancherImported=True`"
	case d.Outcome.IsDone() && d.ends():
		text = "nothing is left to do"
	}
	if after := d.Outcome.After; after > 0 && d.Outcome.IsDone() {
		text += fmt.Sprintf("; it is looked at again after %s", after)
	}
	if reason := d.Outcome.Reason; reason != "" {
		end := d.Outcome.Kind.String() + " " + reason
		text = strings.TrimSuffix(text, end) + map[bool]string{true: "reason ", false: "it ends with reason "}[len(d.Actions) == 0] + "`" + reason + "`"
	}
	return rule, strings.ReplaceAll(text, "|", `\|`)
}

// Whoever wants to know why a cluster is in a state finds on a page what Decide makes of it. The page is what Decide
// says, so it cannot be wrong. "make generate" writes it.
func TestThePageOfDecisions(t *testing.T) {
	var page strings.Builder
	page.WriteString(`# How an import decides

<!-- Generated by make generate from what Decide says. -->

Each table is about one intent: what a run of the import sets out to do with a CAPI cluster. The first rule that fits decides: its name is the phase in logs and metrics. [The architecture](architecture.md) lists all rules
in their order, and [conditions](../operations/conditions.md) says of each reason what to do: ` + "`RancherImported`" + ` is False with it. What is not known yet is asked for, and what is done changes what is known: then it is decided again.

In the examples the CAPI cluster is ` + "`tenant/prod`" + `, and its Rancher cluster ` + "`c-abcde`" + ` or ` + "`prod-capi`" + `.
`)
	rows, before := decideRows(), intentUnknown
	for _, situation := range situations() {
		row, ok := rows[situation[0]]
		if !ok {
			t.Errorf("there is no row %s", situation[0])
			continue
		}
		_, decide := row.prepare()
		d := decide()
		if d.Intent != before {
			before = d.Intent
			fmt.Fprintf(&page, "\n## Intent: %s\n\n| what is known | rule | what follows |\n|---|---|---|\n", d.Intent)
		}
		rule, text := follows(d)
		fmt.Fprintf(&page, "| %s | %s | %s |\n", situation[1], rule, text)
	}
	file := filepath.Join("..", "..", "docs", "development", "decisions.md")
	if *writeDecisions {
		if err := os.WriteFile(file, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := os.ReadFile(file); err != nil || string(found) != page.String() {
		t.Errorf("%s is stale: run make generate (%v)", file, err)
	}
}
