// Command kubernetes-check judges the plain objects of a release with the API server's own code, offline.
//
// Every Pod, Service, ConfigMap, ServiceAccount and NetworkPolicy on standard input (YAML documents, or JSON, one
// after another) is decoded strictly, given the API server's defaults, and put through the strategy that the API
// server runs before it creates such an object; a Pod goes through the admission plugins Priority and RuntimeClass
// first. Objects of other kinds are passed over. With -pod-security=LEVEL, what Pod Security admission would refuse in
// a namespace that enforces the level is an error too. Each judged document gives one line of JSON on standard output:
//
//	{"source": "-", "kind": KIND, "name": NAME, "errors": [{"check": CHECK, "message": TEXT}]}
//
// Exit status: 0 nothing found, 1 at least one error, 2 the command itself went wrong, which includes an input without
// any such object.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const namespace = "default"

var strategies = map[string]rest.RESTCreateStrategy{
	"v1/Pod":                             pod.Strategy,
	"v1/Service":                         service.Strategy,
	"v1/ConfigMap":                       configmap.Strategy,
	"v1/ServiceAccount":                  serviceaccount.Strategy,
	"networking.k8s.io/v1/NetworkPolicy": networkpolicy.Strategy,
}

// finding is one thing that would be refused.
type finding struct {
	Check   string `json:"check"`
	Message string `json:"message"`
}

// report is the judgement of one document.
type report struct {
	Source string    `json:"source"`
	Kind   string    `json:"kind"`
	Name   string    `json:"name"`
	Errors []finding `json:"errors"`
}

func (r *report) add(check string, text string) {
	r.Errors = append(r.Errors, finding{Check: check, Message: text})
}

// checker holds what is shared between documents.
type checker struct {
	decoder    runtime.Decoder
	admissions *admissions
	level      api.LevelVersion
	evaluator  policy.Evaluator
}

func newChecker(level string) (*checker, error) {
	parsed, err := api.ParseLevel(level)
	if err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	admissions, err := newAdmissions()
	if err != nil {
		return nil, err
	}
	// Strict, as `helm install` and the operator's own writes are answered: an unknown field is lost, or refused.
	codecs := serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict)
	return &checker{
		decoder:    codecs.UniversalDecoder(),
		admissions: admissions,
		level:      api.LevelVersion{Level: parsed, Version: api.LatestVersion()},
		evaluator:  evaluator,
	}, nil
}

// document judges one document; nil when it is of a kind that is not judged here.
func (c *checker) document(data []byte) (*report, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	strategy, known := strategies[head.APIVersion+"/"+head.Kind]
	if !known {
		return nil, nil
	}
	result := &report{Source: "-", Kind: head.Kind, Name: head.Metadata.Name, Errors: []finding{}}
	object, kind, err := c.decoder.Decode(data, nil, nil)
	if err != nil {
		result.add("decode", err.Error())
		return result, nil
	}
	if made, ok := object.(*core.Pod); ok {
		refusals, err := c.admissions.admit(made)
		if err != nil {
			return nil, err
		}
		for _, refusal := range refusals {
			result.add("admission", refusal.Error())
		}
	}
	c.create(result, strategy, kind.GroupVersion(), object)
	if head.Kind == "Pod" {
		return result, c.podSecurity(result, data)
	}
	return result, nil
}

// create does what the API server does to an object before it stores it.
func (c *checker) create(result *report, strategy rest.RESTCreateStrategy, version schema.GroupVersion, object runtime.Object) {
	metadata, err := meta.Accessor(object)
	if err != nil {
		result.add("decode", err.Error())
		return
	}
	metadata.SetNamespace(namespace)
	if metadata.GetName() == "" && metadata.GetGenerateName() != "" {
		metadata.SetName(strategy.GenerateName(metadata.GetGenerateName()))
	}
	rest.FillObjectMetaSystemFields(metadata)
	if made, ok := object.(*core.Service); ok {
		allocate(made)
	}
	ctx := genericapirequest.WithNamespace(context.Background(), namespace)
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		IsResourceRequest: true, Verb: "create", Namespace: namespace, APIGroup: version.Group, APIVersion: version.Version,
	})
	err = rest.BeforeCreate(strategy, ctx, object)
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		for _, cause := range status.Status().Details.Causes {
			result.add("validate", cause.Field+": "+cause.Message)
		}
	} else if err != nil {
		result.add("validate", err.Error())
	}
}

// allocate gives a Service the addresses and the port that the API server's allocator would, before it is validated.
func allocate(made *core.Service) {
	if made.Spec.Type == core.ServiceTypeExternalName {
		return
	}
	if made.Spec.ClusterIP == "" {
		made.Spec.ClusterIP = "192.0.2.1"
	}
	if len(made.Spec.ClusterIPs) == 0 {
		made.Spec.ClusterIPs = []string{made.Spec.ClusterIP}
	}
	if len(made.Spec.IPFamilies) == 0 {
		made.Spec.IPFamilies = []core.IPFamily{core.IPv4Protocol}
	}
	if made.Spec.IPFamilyPolicy == nil {
		made.Spec.IPFamilyPolicy = ptr.To(core.IPFamilyPolicySingleStack)
	}
	if made.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal && made.Spec.HealthCheckNodePort == 0 {
		made.Spec.HealthCheckNodePort = 30000
	}
}

// podSecurity says what Pod Security admission has against a pod at the chosen level.
func (c *checker) podSecurity(result *report, data []byte) error {
	var made corev1.Pod
	if err := yaml.Unmarshal(data, &made); err != nil {
		return err
	}
	for _, found := range c.evaluator.EvaluatePod(c.level, &made.ObjectMeta, &made.Spec) {
		if !found.Allowed {
			result.add("pod-security", found.ForbiddenReason+": "+found.ForbiddenDetail)
		}
	}
	return nil
}

// run judges standard input and says whether anything is refused.
func run() (failed bool, err error) {
	level := flag.String("pod-security", string(api.LevelPrivileged), "privileged, baseline or restricted")
	flag.Parse()
	// As EKS and nearly every cluster has it: what is privileged is left to Pod Security admission.
	capabilities.Setup(true, 0)
	check, err := newChecker(*level)
	if err != nil {
		return false, err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	documents := yamlutil.NewYAMLReader(bufio.NewReader(os.Stdin))
	judged := 0
	for {
		data, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return failed, err
		}
		result, err := check.document(data)
		if err != nil {
			return failed, err
		}
		if result == nil {
			continue
		}
		judged++
		failed = failed || len(result.Errors) > 0
		if err := out.Encode(result); err != nil {
			return failed, err
		}
	}
	if judged == 0 {
		return failed, errors.New("no object in the input that is judged here: nothing was checked")
	}
	return failed, nil
}

func main() {
	failed, err := run()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "kubernetes-check:", err)
		os.Exit(2)
	case failed:
		os.Exit(1)
	}
}
