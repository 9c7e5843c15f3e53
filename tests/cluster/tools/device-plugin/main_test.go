package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	patience = 10 * time.Second
	resource = "nvidia.com/gpu"
)

// kubelet is as much of one as a device plugin meets.
type kubelet struct {
	api.UnimplementedRegistrationServer
	server     *grpc.Server
	registered chan *api.RegisterRequest
}

func (k *kubelet) Register(_ context.Context, request *api.RegisterRequest) (*api.Empty, error) {
	k.registered <- request
	return &api.Empty{}, nil
}

// startKubelet removes every socket in the folder first, as the real one does.
func startKubelet(t *testing.T, folder string) *kubelet {
	t.Helper()
	sockets, _ := filepath.Glob(filepath.Join(folder, "*.sock"))
	for _, socket := range sockets {
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(folder, kubeletSocket))
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{server: grpc.NewServer(), registered: make(chan *api.RegisterRequest, 1)}
	api.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(listener) }()
	t.Cleanup(k.server.Stop)
	return k
}

// plugin waits for the registration and connects back.
func (k *kubelet) plugin(t *testing.T, folder string) api.DevicePluginClient {
	t.Helper()
	select {
	case request := <-k.registered:
		if request.ResourceName != resource || request.Version != "v1beta1" {
			t.Fatalf("registered %v", request)
		}
		connection, err := grpc.NewClient(
			"unix:"+filepath.Join(folder, request.Endpoint),
			grpc.WithTransportCredentials(insecure.NewCredentials()),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() })
		return api.NewDevicePluginClient(connection)
	case <-time.After(patience):
		t.Fatal("the plugin did not register")
		return nil
	}
}

// received is the next list of devices as text.
func received(t *testing.T, stream api.DevicePlugin_ListAndWatchClient) string {
	t.Helper()
	response, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var devices []string
	for _, device := range response.Devices {
		devices = append(devices, device.ID+" "+device.Health)
	}
	return strings.Join(devices, ", ")
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// write replaces the hardware file in one step.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestLifeOfAPlugin(t *testing.T) {
	folder := t.TempDir()
	hardware := filepath.Join(folder, "gpus")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx, folder, resource, hardware, "NVIDIA_VISIBLE_DEVICES")
	}()
	calls, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()

	first := startKubelet(t, folder)
	client := first.plugin(t, folder)
	stream, err := client.ListAndWatch(calls, &api.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, received(t, stream), "") // no hardware file yet
	write(t, hardware, "GPU-0\nGPU-1\n")
	expect(t, received(t, stream), "GPU-0 Healthy, GPU-1 Healthy")
	write(t, hardware, "GPU-0\nGPU-1 broken\n") // makes no sense, and changes nothing
	time.Sleep(2 * period)
	write(t, hardware, "GPU-0\nGPU-1 unhealthy\n")
	expect(t, received(t, stream), "GPU-0 Healthy, GPU-1 Unhealthy")

	request := &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{
		{DevicesIds: []string{"GPU-1", "GPU-0"}}, {DevicesIds: []string{"GPU-2"}},
	}}
	response, err := client.Allocate(calls, request)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, response.ContainerResponses[0].Envs["NVIDIA_VISIBLE_DEVICES"], "GPU-0,GPU-1")
	expect(t, response.ContainerResponses[1].Envs["NVIDIA_VISIBLE_DEVICES"], "GPU-2")

	first.server.Stop()
	client = startKubelet(t, folder).plugin(t, folder)
	if stream, err = client.ListAndWatch(calls, &api.Empty{}); err != nil {
		t.Fatal(err)
	}
	expect(t, received(t, stream), "GPU-0 Healthy, GPU-1 Unhealthy")

	stop()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the plugin did not end")
	}
	if _, err := os.Stat(filepath.Join(folder, "nvidia.com_gpu.sock")); !os.IsNotExist(err) {
		t.Fatalf("its socket is left: %v", err)
	}
}

func TestHardwareFile(t *testing.T) {
	for text, problem := range map[string]string{
		"\n GPU-0 \n\nGPU-1 unhealthy\n": "",
		"GPU-0\nGPU-1 sick":              `line 2: "GPU-1 sick"`,
		"GPU-0 unhealthy now":            "line 1",
		"GPU-0\nGPU-0 unhealthy":         "line 2: GPU-0 is there twice",
	} {
		_, err := parse(text)
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: got %v, want %q", text, err, problem)
		}
	}
}
