package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	kubeletSocket = "kubelet.sock"
	// The kubelet connects back before it answers, and gives that ten seconds.
	registrationTimeout = 15 * time.Second
)

// service offers the plugin on a socket of its own, and tells the kubelet of it.
type service struct {
	plugin   *plugin
	folder   string
	resource string

	server     *grpc.Server
	registered os.FileInfo // the kubelet's socket when it last took the registration; nil: it has not
}

// keepRegistered registers the plugin with the kubelet, and again with every new one: a kubelet that starts forgets
// its plugins and removes their sockets. It is known by its own socket, which it makes anew.
func (s *service) keepRegistered(ctx context.Context) error {
	kubelet, err := os.Stat(filepath.Join(s.folder, kubeletSocket))
	if errors.Is(err, os.ErrNotExist) {
		return nil // no kubelet yet, or one that is about to start again
	}
	if err != nil || sameSocket(s.registered, kubelet) {
		return err
	}
	s.registered = nil
	if err := s.serve(); err != nil {
		return err
	}
	if err := s.register(ctx); err != nil {
		return fmt.Errorf("registration of %s: %w", s.resource, err)
	}
	log.Printf("registered %s", s.resource)
	s.registered = kubelet
	return nil
}

// sameSocket compares the times too: a file system may give a new file the number of one that is gone.
func sameSocket(one, other os.FileInfo) bool {
	return one != nil && os.SameFile(one, other) && one.ModTime().Equal(other.ModTime())
}

// endpoint is the file name of the plugin's socket.
func (s *service) endpoint() string {
	return strings.ReplaceAll(s.resource, "/", "_") + ".sock"
}

// serve starts answering on a new socket.
func (s *service) serve() error {
	s.stop()
	path := filepath.Join(s.folder, s.endpoint())
	// One is left behind by a plugin that was killed.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, s.plugin)
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Print(err)
		}
	}()
	s.server = server
	return nil
}

// stop ends the answering; the kubelet then holds the devices for broken. The socket is removed.
func (s *service) stop() {
	if s.server != nil {
		s.server.Stop()
		s.server = nil
	}
}

// register tells the kubelet the plugin's socket.
func (s *service) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registrationTimeout)
	defer cancel()
	connection, err := grpc.NewClient(
		"unix:"+filepath.Join(s.folder, kubeletSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version:      api.Version,
		Endpoint:     s.endpoint(),
		ResourceName: s.resource,
		Options:      &api.DevicePluginOptions{},
	})
	return err
}
