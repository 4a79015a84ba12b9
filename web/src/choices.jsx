// What is watched: task, machine, seed, scale, size.
import { useState } from "preact/hooks";
import { IconButton } from "./icons.jsx";
import { ask, asked, machineFor, machines, task, tasks } from "./state.js";

/** Choose another task; a machine of the zoo gives way to the one for it. */
function chooseTask(name) {
  const { machine } = asked.value;
  const keeps = machine === "text" || machine.startsWith("run:");
  ask({
    task: name,
    machine: keeps ? machine : (machineFor(name) ?? machine),
    scale: "1",
    size: "",
    world: null,
    other: "",
  });
}

/** The choices in the bar; where it is narrow, behind a button that says what is chosen. */
export function Choices() {
  const [isOpen, setOpen] = useState(false);
  const { machine, seed } = asked.value;
  const name = machine === "text" ? "what is written" : machine.replace(/^(zoo|run):/, "");
  return (
    <>
      <button
        type="button"
        class="button bare chosen"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        <span>
          {name}, seed {seed}
        </span>
        <i aria-hidden="true">{isOpen ? "▴" : "▾"}</i>
      </button>
      <ChoiceFields isOpen={isOpen} />
    </>
  );
}

function ChoiceFields({ isOpen }) {
  const { machine, seed, scale, size, other, view } = asked.value;
  const scales = task.value?.scales ?? [1];
  return (
    <div class={isOpen ? "choices open" : "choices"} role="group" aria-label="What is watched">
      <label class="field">
        <span>Task</span>
        <select
          value={task.value?.name}
          onChange={(event) => chooseTask(event.currentTarget.value)}
          data-choice="task"
        >
          {suites().map(([suite, members]) => (
            <optgroup key={suite} label={suite}>
              {members.map(({ name }) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
      </label>
      {view === "watch" && (
        <label class="field">
          <span>Machine</span>
          <MachineSelect value={machine} onChange={(name) => ask({ machine: name })} />
        </label>
      )}
      <span class="field">
        <label class="field">
          <span>Seed</span>
          <input
            type="number"
            min={0}
            value={seed}
            data-choice="seed"
            onChange={(event) => ask({ seed: wholeNumber(event.currentTarget.value), world: null })}
          />
        </label>
        <IconButton
          name="dice"
          label="Next seed"
          onClick={() => ask({ seed: String(Number(seed) + 1), world: null })}
        />
      </span>
      {scales.length > 1 && (
        <label class="field">
          <span>Scale</span>
          <select
            value={scale}
            onChange={(event) => ask({ scale: event.currentTarget.value })}
            data-choice="scale"
          >
            {scales.map((factor) => (
              <option key={factor} value={String(factor)}>
                ×{factor}
              </option>
            ))}
          </select>
        </label>
      )}
      <label class="field">
        <span>Size</span>
        <input
          type="text"
          size={6}
          value={size}
          data-choice="size"
          placeholder={task.value?.size.join("x")}
          onChange={(event) =>
            ask({ size: event.currentTarget.value.trim().replace("×", "x"), world: null })
          }
        />
      </label>
      {view === "watch" && (
        <label class="field">
          <span>Beside</span>
          <MachineSelect value={other} none="nothing" onChange={(name) => ask({ other: name })} />
        </label>
      )}
    </div>
  );
}

function wholeNumber(text) {
  const number = Math.floor(Number(text));
  return String(number > 0 ? Math.min(number, Number.MAX_SAFE_INTEGER) : 0);
}

function suites() {
  const found = new Map();
  for (const one of tasks.value) found.set(one.suite, [...(found.get(one.suite) ?? []), one]);
  return [...found];
}

/** Props: `value`, `onChange`, `none` (what no machine is called; left out: there must be one). */
function MachineSelect({ value, onChange, none }) {
  const own = machines.value.filter((one) => one.task === task.value?.name);
  const others = machines.value.filter((one) => one.task !== task.value?.name);
  const isListed = machines.value.some(({ name }) => name === value);
  return (
    <select
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      data-choice={none ? "beside" : "machine"}
    >
      {none && <option value="">{none}</option>}
      {!isListed && value && value !== "text" && <option value={value}>{value}</option>}
      {(value === "text" || asked.value.text) && <option value="text">what is written</option>}
      <Group label={`For ${task.value?.name}`} members={own} />
      <Group label="For other tasks" members={others} />
    </select>
  );
}

function Group({ label, members }) {
  return (
    members.length > 0 && (
      <optgroup label={label}>
        {members.map(({ name }) => (
          <option key={name} value={name}>
            {name.replace(/^zoo:/, "")}
          </option>
        ))}
      </optgroup>
    )
  );
}
