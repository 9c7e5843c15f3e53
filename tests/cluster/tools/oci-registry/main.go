// oci-registry is the CNCF Distribution registry with its file system storage and nothing else: the full program links
// the SDKs of three clouds.
//
//	oci-registry serve CONFIG
package main

import (
	"log"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if err := registry.RootCmd.Execute(); err != nil {
		log.Fatal(err)
	}
}
