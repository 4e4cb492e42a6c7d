// Loads a compose file with compose's own parser and schema, and prints the project as it understands it, as JSON.
//
//	go run . FILE [ENV-FILE | NAME=VALUE]...
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: compose FILE [ENV-FILE | NAME=VALUE]...")
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
	var files, variables []string
	for _, word := range environment {
		if strings.Contains(word, "=") {
			variables = append(variables, word)
		} else {
			files = append(files, word)
		}
	}
	settings := []cli.ProjectOptionsFn{cli.WithEnv(variables), cli.WithProfiles([]string{"*"})}
	if len(files) > 0 { // without one, compose would look for a .env of its own
		settings = append(settings, cli.WithEnvFiles(files...), cli.WithDotEnv)
	}
	options, err := cli.NewProjectOptions([]string{file}, settings...)
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}
