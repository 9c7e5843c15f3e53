package networkpolicies

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// The kernel takes a rule with a Queue, as iptables' target and not as the expression that it may lack.
func TestQueueIsTarget(t *testing.T) {
	// A network namespace belongs to a thread: this one is not unlocked, and so ends with the goroutine.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, os.ErrPermission) {
		t.Skip("a network namespace of its own needs root")
	} else if err != nil {
		t.Fatal(err)
	}

	connection, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	table := connection.AddTable(&nftables.Table{Name: "policies", Family: nftables.TableFamilyINet})
	chain := connection.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityFilter,
	})
	queue := &expr.Queue{Num: 100, Flag: expr.QueueFlagBypass}
	connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{queue}})
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}

	rules, err := connection.GetRules(table, chain)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != 1 || len(rules[0].Exprs) != 1 {
		t.Fatalf("the kernel has %+v", rules)
	}
	target, ok := rules[0].Exprs[0].(*expr.Target)
	if !ok || target.Name != "NFQUEUE" || target.Rev != 3 {
		t.Fatalf("the kernel has %+v", rules[0].Exprs[0])
	}
	// What the kernel stored: queue, number of queues, flags.
	info := *target.Info.(*xt.Unknown)
	for index, want := range []uint16{100, 1, 1} {
		if got := binary.NativeEndian.Uint16(info[2*index:]); got != want {
			t.Errorf("number %d is %d, want %d", index, got, want)
		}
	}
}
