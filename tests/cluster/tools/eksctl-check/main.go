// Command eksctl-check judges eksctl ClusterConfig files with eksctl's own code, offline.
//
// It walks the path of `eksctl create cluster -f FILE` as far as that path needs no AWS call: the strict loader,
// the defaults, every validator, the region list. Each file (standard input without arguments, or for "-") gives
// one line of JSON on standard output:
//
//	{"source": FILE, "kind": "ClusterConfig", "name": NAME, "errors": [{"check": CHECK, "message": TEXT}]}
//
// eksctl's validators stop at their first finding, so one line can hold several errors only when they come from
// different checks. Exit status: 0 nothing found, 1 at least one error, 2 the command itself went wrong.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/kris-nova/logger"
	"github.com/spf13/cobra"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/weaveworks/eksctl/pkg/accessentry"
	api "github.com/weaveworks/eksctl/pkg/apis/eksctl.io/v1alpha5"
	"github.com/weaveworks/eksctl/pkg/ctl/cmdutils"
	"github.com/weaveworks/eksctl/pkg/ctl/cmdutils/filter"
)

const stdin = "-"

// finding is one thing that eksctl refuses.
type finding struct {
	Check   string `json:"check"`
	Message string `json:"message"`
}

// report is the judgement of one file.
type report struct {
	Source string    `json:"source"`
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	Errors []finding `json:"errors"`
}

// add records err under the name of the check; a nil error records nothing.
func (r *report) add(check string, err error) {
	if err != nil {
		r.Errors = append(r.Errors, finding{Check: check, Message: err.Error()})
	}
}

// load runs the loader of `eksctl create cluster` over one document: strict decode, defaults that depend on the
// file, rules that concern a config file as a whole. Name and region may not come from flags here.
func load(source string, document []byte) (*cmdutils.Cmd, error) {
	cmd := &cmdutils.Cmd{
		CobraCommand:  &cobra.Command{},
		ClusterConfig: api.NewClusterConfig(),
		// A path is read again by the loader, which names it in its messages; the reader below serves "-" alone.
		ClusterConfigFile: source,
		Validate:          true,
	}
	params := &cmdutils.CreateClusterCmdParams{ConfigReader: bytes.NewReader(document)}
	loader := cmdutils.NewCreateClusterLoader(cmd, filter.NewNodeGroupFilter(), api.NewNodeGroup(), params)
	if err := loader.Load(); err != nil {
		return nil, err
	}
	return cmd, nil
}

// supportedRegion is eksctl's check of the region, which it makes on its AWS provider and not on the file.
func supportedRegion(region string) error {
	if slices.Contains(api.SupportedRegions(), region) {
		return nil
	}
	return fmt.Errorf("metadata.region %q is not a region that eksctl supports", region)
}

// singleDocument refuses a file with several YAML documents: eksctl reads the first and drops the rest without a word.
func singleDocument(data []byte) error {
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	filled := 0
	for {
		part, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var content any
		// A part that does not parse counts too; what is wrong with it is the loader's to say.
		if err := yaml.Unmarshal(part, &content); err != nil || content != nil {
			filled++
		}
	}
	if filled > 1 {
		return fmt.Errorf("the file holds %d YAML documents; eksctl would read the first one only", filled)
	}
	return nil
}

// check judges one document.
func check(source string, document []byte) report {
	result := report{Source: source, Kind: api.ClusterConfigKind, Errors: []finding{}}
	result.add("load", singleDocument(document))
	cmd, err := load(source, document)
	if err != nil {
		result.add("load", err)
		return result
	}
	config := cmd.ClusterConfig
	result.Name = config.Metadata.Name
	if api.IsInvalidNameArg(config.Metadata.Name) {
		result.add("name", api.ErrInvalidName(config.Metadata.Name))
	}
	result.add("region", supportedRegion(config.Metadata.Region))
	if err := cmd.InitializeClusterConfig(); err != nil {
		// The checks below read what the defaults would have filled in.
		result.add("validate", err)
		return result
	}
	result.add("privateCluster", config.ValidatePrivateCluster())
	result.add("clusterEndpoints", config.ValidateClusterEndpointConfig())
	result.add("accessEntries", accessentry.ValidateAPIServerAccess(config))
	return result
}

// read returns the bytes of a file, or of standard input for "-".
func read(source string) ([]byte, error) {
	if source == stdin {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(source)
}

func main() {
	flag.Parse()
	sources := flag.Args()
	if len(sources) == 0 {
		sources = []string{stdin}
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	// eksctl logs to standard output unless told otherwise; that stream is for the reports alone.
	os.Stdout = os.Stderr
	logger.Writer = os.Stderr
	status := 0
	for _, source := range sources {
		document, err := read(source)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		result := check(source, document)
		if len(result.Errors) > 0 {
			status = 1
		}
		if err := encoder.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(status)
}
