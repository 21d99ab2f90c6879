// The rules for JavaScript. Names, types and unused code are tsc's business (tsconfig.json); this is about habits and size.
import js from "@eslint/js";

/** Every exception from a rule, with its reason. Comments that switch a rule off do not count (noInlineConfig). */
const EXCEPTIONS = [
  // Programs for a terminal, which have no other place for their log.
  { files: ["examples/nodejs/**", "examples/backends/**"], rules: { "no-console": "off" } },
];

export default [
  // The client is TypeScript: what tsc makes of it is checked here, but for the files that esbuild puts together.
  {
    ignores: [
      ...["**/node_modules/**", "**/.venv*/**", "**/.cache/**", "dist/**"],
      ...["clients/js/dist", "src/lingua_scheduler/console/assets/shared"].flatMap((folder) =>
        ["client.js", "sound.worklet.js"].map((name) => `${folder}/${name}`),
      ),
    ],
  },
  js.configs.recommended,
  {
    linterOptions: { noInlineConfig: true, reportUnusedDisableDirectives: "error" },
    languageOptions: { ecmaVersion: 2024, sourceType: "module" },
    rules: {
      // tsc knows every name there is, in a browser, in a worklet and in Node.js, and which are not used.
      "no-undef": "off",
      "no-unused-vars": "off",
      complexity: ["error", 10],
      "max-lines": ["error", 300],
      "max-depth": ["error", 3],
      "max-params": ["error", 5],
      "max-nested-callbacks": ["error", 4],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-var": "error",
      "prefer-const": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-shadow": "error",
      "no-else-return": "error",
      "no-throw-literal": "error",
      "no-return-assign": ["error", "except-parens"],
      "no-unused-expressions": "error",
      "no-console": "error",
      "object-shorthand": "error",
      "prefer-arrow-callback": "error",
      "prefer-template": "error",
      // What peers say can never become markup.
      "no-restricted-properties": [
        "error",
        ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property })),
        { object: "document", property: "write" },
      ],
    },
  },
  ...EXCEPTIONS,
];
