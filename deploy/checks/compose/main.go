// Loads a compose file with compose's own parser and schema, and prints the project as it understands it, as JSON.
//
//	go run . FILE [NAME=VALUE]...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: compose FILE [NAME=VALUE]...")
		os.Exit(2)
	}
	project, err := load(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(project); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(file string, environment []string) (any, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithEnv(environment), cli.WithProfiles([]string{"*"}))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}
