// device-plugin offers devices that do not exist to the kubelet, as a vendor's device plugin offers its own.
//
//	device-plugin -resource nvidia.com/gpu -hardware /run/hardware/gpus -env NVIDIA_VISIBLE_DEVICES
//
// The hardware file stands for the machine's slots: one device per line, `ID`, or `ID unhealthy` for a broken one;
// without the file there is none. It is read every second, so that a test can break a device, take it out or put one
// in; a test replaces the file by renaming, because a line that is half written is a device of another name.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const period = time.Second

// inventory is the list of devices as it was last read.
type inventory struct {
	mutex   sync.Mutex
	devices []*api.Device
	text    string
	changed chan struct{} // closed when the list is replaced, and then replaced too
}

func newInventory() *inventory {
	return &inventory{changed: make(chan struct{})}
}

// current returns the list, and a channel that is closed when it is out of date.
func (i *inventory) current() ([]*api.Device, <-chan struct{}) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.devices, i.changed
}

// read brings the list up to date with the hardware file. One that makes no sense leaves it as it was.
func (i *inventory) read(path string) error {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := string(content)
	if text == i.text { // only this method changes it, and one goroutine calls it
		return nil
	}
	i.text = text
	devices, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	log.Printf("%d devices: %s", len(devices), strings.Join(strings.Split(strings.TrimSpace(text), "\n"), ", "))
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.devices = devices
	close(i.changed)
	i.changed = make(chan struct{})
	return nil
}

// parse reads the hardware file.
func parse(text string) ([]*api.Device, error) {
	var devices []*api.Device
	seen := map[string]bool{}
	for number, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		health := api.Healthy
		if len(words) == 2 && words[1] == "unhealthy" {
			health = api.Unhealthy
		} else if len(words) > 1 {
			return nil, fmt.Errorf("line %d: %q is neither ID nor ID unhealthy", number+1, line)
		}
		if seen[words[0]] {
			return nil, fmt.Errorf("line %d: %s is there twice", number+1, words[0])
		}
		seen[words[0]] = true
		devices = append(devices, &api.Device{ID: words[0], Health: health})
	}
	return devices, nil
}

// plugin answers the kubelet.
type plugin struct {
	api.UnimplementedDevicePluginServer
	inventory *inventory
	variable  string
}

// GetDevicePluginOptions says that neither of the optional calls is wanted.
func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the list of devices, and again whenever it changes.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for {
		devices, changed := p.inventory.current()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// Allocate names a container's devices in its environment. There is no device node to give it.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		// The kubelet takes them from a set, in no order.
		ids := slices.Sorted(slices.Values(container.DevicesIds))
		log.Printf("allocated %s", strings.Join(ids, ", "))
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{p.variable: strings.Join(ids, ",")},
		})
	}
	return response, nil
}

// run serves until the context ends.
func run(ctx context.Context, folder, resource, hardware, variable string) {
	inventory := newInventory()
	service := &service{
		plugin:   &plugin{inventory: inventory, variable: variable},
		folder:   folder,
		resource: resource,
	}
	defer service.stop()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if err := inventory.read(hardware); err != nil {
			log.Print(err)
		}
		if err := service.keepRegistered(ctx); err != nil && ctx.Err() == nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func main() {
	resource := flag.String("resource", "nvidia.com/gpu", "name of the extended resource")
	hardware := flag.String("hardware", "/run/hardware/gpus", "file with one device per line: ID, or ID unhealthy")
	variable := flag.String("env", "NVIDIA_VISIBLE_DEVICES", "variable that tells a container its devices")
	folder := flag.String("dir", filepath.Clean(api.DevicePluginPath), "folder with the kubelet's socket")
	flag.Parse()
	if flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	run(ctx, *folder, *resource, *hardware, *variable)
}
