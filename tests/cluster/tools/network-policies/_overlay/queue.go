package expr

import (
	"encoding/binary"

	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// This file takes the place of queue.go in github.com/google/nftables/expr while network-policies is built; see the
// overlay in versions.toml. The folder's name begins with _ so that Go commands in this module pass it over.
//
// A rule queues packets with nftables' own `queue` expression where the kernel has CONFIG_NFT_QUEUE. Not every kernel
// that runs containers has it, while iptables' NFQUEUE target, reached through CONFIG_NFT_COMPAT, is nearly always
// there, as is the queue behind both (CONFIG_NETFILTER_NETLINK_QUEUE). Here a Queue is sent as that target: the
// packets meet the same verdict, and what the program that reads the queue sees is the same.

// QueueAttribute is an attribute of the kernel's queue expression.
type QueueAttribute uint16

// The attributes.
const (
	QueueNum   QueueAttribute = unix.NFTA_QUEUE_NUM
	QueueTotal QueueAttribute = unix.NFTA_QUEUE_TOTAL
	QueueFlags QueueAttribute = unix.NFTA_QUEUE_FLAGS
)

// QueueFlag changes what becomes of a packet. The target's flags have the same bits.
type QueueFlag uint16

// The flags.
const (
	QueueFlagBypass QueueFlag = unix.NFT_QUEUE_FLAG_BYPASS     // accept the packet where nothing reads the queue
	QueueFlagFanout QueueFlag = unix.NFT_QUEUE_FLAG_CPU_FANOUT // choose among several queues by CPU
	QueueFlagMask   QueueFlag = unix.NFT_QUEUE_FLAG_MASK
)

// Queue hands a packet to the program that reads queue Num, or one of the Total queues from Num on.
type Queue struct {
	Num   uint16
	Total uint16 // 0: a single one
	Flag  QueueFlag
}

// target is the Queue as iptables knows it: revision 3 of NFQUEUE, whose data is three numbers of the machine's own
// byte order (struct xt_NFQ_info_v3), padded as all data of targets to a multiple of eight bytes.
func (e *Queue) target() *Target {
	info := make(xt.Unknown, 8)
	binary.NativeEndian.PutUint16(info[0:], e.Num)
	binary.NativeEndian.PutUint16(info[2:], max(e.Total, 1))
	binary.NativeEndian.PutUint16(info[4:], uint16(e.Flag&QueueFlagMask))
	return &Target{Name: "NFQUEUE", Rev: 3, Info: &info}
}

func (e *Queue) marshal(fam byte) ([]byte, error) {
	return e.target().marshal(fam)
}

func (e *Queue) marshalData(fam byte) ([]byte, error) {
	return e.target().marshalData(fam)
}

// unmarshal reads the kernel's queue expression: other programs' rules may hold it. What this Queue was sent as is
// read back as the Target that it is.
func (e *Queue) unmarshal(_ byte, data []byte) error {
	attributes, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return err
	}
	attributes.ByteOrder = binary.BigEndian
	for attributes.Next() {
		switch QueueAttribute(attributes.Type()) {
		case QueueNum:
			e.Num = attributes.Uint16()
		case QueueTotal:
			e.Total = attributes.Uint16()
		case QueueFlags:
			e.Flag = QueueFlag(attributes.Uint16())
		}
	}
	return attributes.Err()
}
