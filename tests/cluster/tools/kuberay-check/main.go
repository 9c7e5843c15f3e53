// Command kuberay-check judges RayJob and RayCluster manifests with the KubeRay operator's own code, offline.
//
// Every document of group ray.io in the files named (standard input without arguments, or for "-") is checked the
// way it would be checked on its way into a cluster: strict decoding, the CRD's schema with the API server's library,
// whether it stays as it is when the operator writes it back, then each validation function that the operator's
// reconcilers and webhooks call. Documents of other groups are passed over. Each judged document gives one line of JSON on standard output:
//
//	{"source": FILE, "kind": KIND, "name": NAME, "errors": [{"check": CHECK, "message": TEXT}], "pods": [POD], "service": SERVICE}
//
// "pods" and "service" are there only with -pods: the pods that the operator would create, one per group, then the
// submitter, and the Service of the head. Exit status: 0 nothing
// found, 1 at least one error, 2 the command itself went wrong, which includes an input without any ray.io document.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
)

const stdin = "-"

// finding is one thing that would be refused, or would go wrong, in a cluster.
type finding struct {
	Check   string `json:"check"`
	Message string `json:"message"`
}

// report is the judgement of one document.
type report struct {
	Source string       `json:"source"`
	Kind   string       `json:"kind"`
	Name   string       `json:"name"`
	Errors []finding    `json:"errors"`
	Pods   []corev1.Pod `json:"pods,omitempty"`

	Service *corev1.Service `json:"service,omitempty"`
}

// add records err under the name of the check. The operator's functions call one another, so the same refusal comes
// back from several of them; it is kept once, under the first check that gave it.
func (r *report) add(check string, err error) {
	if err == nil {
		return
	}
	for _, known := range r.Errors {
		if strings.Contains(known.Message, err.Error()) {
			return
		}
	}
	r.Errors = append(r.Errors, finding{Check: check, Message: err.Error()})
}

// typeMeta is what every document is first read as.
type typeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

// checker holds what is shared between documents.
type checker struct {
	schemas  *schemaSet
	withPods bool
}

// document judges one YAML document; nil when it is empty or belongs to another API group.
func (c *checker) document(source string, data []byte) (*report, error) {
	var head typeMeta
	if err := yaml.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	group, version, _ := strings.Cut(head.APIVersion, "/")
	if group != rayv1.GroupVersion.Group {
		return nil, nil
	}
	result := &report{Source: source, Kind: head.Kind, Name: head.Metadata.Name, Errors: []finding{}}
	if version != rayv1.GroupVersion.Version {
		result.add("decode", fmt.Errorf("apiVersion %s is not %s", head.APIVersion, rayv1.GroupVersion))
		return result, nil
	}
	switch head.Kind {
	case "RayJob":
		return result, judge(c, result, data, checkRayJob)
	case "RayCluster":
		return result, judge(c, result, data, checkRayCluster)
	default:
		result.add("decode", fmt.Errorf("kind %s is not judged here; RayJob and RayCluster are", head.Kind))
		return result, nil
	}
}

// judge runs the stages over a document of type T: strict decode, schema, what the operator's first update would
// change, the operator's functions. From the schema on, the object is the one that the API server would store, with the
// defaults of the CRD filled in.
func judge[T any](c *checker, result *report, data []byte, operator func(*report, *T) *rayv1.RayCluster) error {
	decodeStrictly(result, data, new(T))
	schema, err := c.schemas.forKind(result.Kind)
	if err != nil {
		return err
	}
	stored, err := schema.check(result, data)
	if err != nil {
		// Not a readable object at all: the strict decode has said so already, in better words.
		result.add("schema", err)
		return nil
	}
	object := new(T)
	if err := kjson.UnmarshalCaseSensitivePreserveInts(stored, object); err != nil {
		result.add("decode", err)
		return nil
	}
	if err := firstUpdate(result, schema, stored, object); err != nil {
		return err
	}
	cluster := guarded(result, object, operator)
	if c.withPods && cluster != nil && !refused(result) {
		result.Pods = buildPods(cluster)
		if result.Service, err = buildService(cluster); err != nil {
			result.add("service", err)
		}
		if job, ok := any(object).(*rayv1.RayJob); ok && job.Spec.SubmissionMode == rayv1.K8sJobMode {
			result.Pods = append(result.Pods, submitterPod(job, cluster))
		}
	}
	return nil
}

// refused says whether anything of the report keeps the pods from being made: the first update does not.
func refused(result *report) bool {
	return slices.ContainsFunc(result.Errors, func(found finding) bool { return found.Check != "update" })
}

// decodeStrictly reads a document into the operator's Go type, refusing unknown and duplicate keys. The decoder is
// the API server's: that of sigs.k8s.io/yaml would take `entryPoint` for `entrypoint`.
func decodeStrictly(result *report, data []byte, object any) {
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		result.add("decode", err) // a duplicate key, most likely; the rest of the document can still be judged
		if raw, err = yaml.YAMLToJSON(data); err != nil {
			return
		}
	}
	unknown, err := kjson.UnmarshalStrict(raw, object)
	result.add("decode", err)
	for _, problem := range unknown {
		result.add("decode", problem)
	}
}

// stream judges every document of one reader and writes the reports; it says how many it judged and whether any of
// them has errors.
func (c *checker) stream(source string, reader io.Reader, out *json.Encoder) (judged int, failed bool, err error) {
	documents := yamlutil.NewYAMLReader(bufio.NewReader(reader))
	for {
		data, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return judged, failed, nil
		}
		if err != nil {
			return judged, failed, fmt.Errorf("%s: %w", source, err)
		}
		result, err := c.document(source, data)
		if err != nil {
			return judged, failed, err
		}
		if result == nil {
			continue
		}
		judged++
		failed = failed || len(result.Errors) > 0
		if err := out.Encode(result); err != nil {
			return judged, failed, err
		}
	}
}

func run() (failed bool, err error) {
	crds := flag.String("crds", "", "folder of the operator's CRD files (config/crd/bases of its module); required")
	gates := flag.String("feature-gates", "", "NAME=true,... as for the operator; empty: the operator's defaults")
	pods := flag.Bool("pods", false, "also print the pods that the operator would create, one per group, then the submitter")
	flag.Parse()
	if *crds == "" {
		return false, errors.New("-crds is required")
	}
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		return false, err
	}
	check := &checker{schemas: newSchemaSet(*crds), withPods: *pods}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	// The operator's functions print to standard output in places; that stream is for the reports alone.
	os.Stdout = os.Stderr
	sources := flag.Args()
	if len(sources) == 0 {
		sources = []string{stdin}
	}
	total := 0
	for _, source := range sources {
		judged, bad, err := check.source(source, out)
		if err != nil {
			return failed, err
		}
		total += judged
		failed = failed || bad
	}
	if total == 0 {
		return failed, errors.New("no ray.io document in the input: nothing was checked")
	}
	return failed, nil
}

// source opens one file, or standard input for "-", and judges what it holds.
func (c *checker) source(source string, out *json.Encoder) (judged int, failed bool, err error) {
	if source == stdin {
		return c.stream(source, os.Stdin, out)
	}
	file, err := os.Open(source)
	if err != nil {
		return 0, false, err
	}
	defer file.Close()
	return c.stream(source, file, out)
}

func main() {
	failed, err := run()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "kuberay-check:", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}
