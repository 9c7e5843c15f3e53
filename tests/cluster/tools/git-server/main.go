// git-server serves every Git repository under a folder over HTTP, read only, through Git's own http-backend.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", "", "folder that holds the repositories")
	listen := flag.String("listen", "", "address and port")
	flag.Parse()
	if *root == "" || *listen == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	backend, err := backend()
	if err != nil {
		log.Fatal(err)
	}
	handler := &cgi.Handler{
		Path: backend,
		Env: []string{
			"GIT_PROJECT_ROOT=" + *root,
			"GIT_HTTP_EXPORT_ALL=1",
			// The repositories may belong to another user than the one that serves them.
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		},
	}
	log.Fatal(http.ListenAndServe(*listen, handler))
}

// backend is the path of Git's CGI program.
func backend() (string, error) {
	folder, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return "", fmt.Errorf("git --exec-path: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(folder)), "git-http-backend")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("this git has no http-backend: %w", err)
	}
	return path, nil
}
