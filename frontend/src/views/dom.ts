/**
 * The small renderer: views return descriptions, `render` brings the page to match them. Called by main.ts and views.
 *
 * Text is always text (no HTML string is ever parsed), so no file name, title or command can become markup. Children are
 * matched by key, else by position and tag. A node with `hosted` keeps whatever lives in it (xterm.js, CodeMirror).
 */

export type Child = VNode | string | number | null | undefined | false;

export interface Props {
  key?: string;
  class?: string;
  style?: Record<string, string>;
  /** Called once with the new element when it stands in the page; what it returns is called when it goes. */
  mount?: (element: HTMLElement) => void | (() => void);
  hosted?: boolean;
  [name: string]: unknown;
}

export interface VNode {
  tag: string;
  props: Props;
  children: (VNode | string)[];
}

interface Mounted {
  node: VNode | string;
  dom: Element | Text;
  children: Mounted[];
  unmount: (() => void) | undefined;
}

const svgTags = new Set(["svg", "path", "circle", "rect", "line", "g"]);
const roots = new WeakMap<Element, Mounted[]>();
const waiting: (() => void)[] = [];
const handlers = new WeakMap<Element, Record<string, (event: never) => void>>();

export function h(tag: string, props: Props | null, ...children: (Child | Child[])[]): VNode {
  const flat = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  return { tag, props: props ?? {}, children: flat.map((child) => (typeof child === "number" ? String(child) : child as VNode | string)) };
}

export function render(root: Element, ...nodes: Child[]): void {
  const wanted = h("root", null, ...nodes).children;
  roots.set(root, patchChildren(root, roots.get(root) ?? [], wanted));
  for (const mount of waiting.splice(0)) mount();
}

function patchChildren(parent: Element, before: Mounted[], wanted: (VNode | string)[]): Mounted[] {
  const free = new Set(before);
  const next = wanted.map((node, at) => {
    const match = findMatch(before, free, node, at);
    if (match) free.delete(match);
    return match ? patch(match, node) : create(node);
  });
  for (const gone of free) remove(gone);
  placeInOrder(parent, next);
  return next;
}

function findMatch(before: Mounted[], free: Set<Mounted>, node: VNode | string, at: number): Mounted | undefined {
  const key = keyOf(node);
  const fits = (one: Mounted | undefined): boolean => one !== undefined && free.has(one) && same(one.node, node);
  // A long list that did not change is matched in one pass.
  const here = before[at];
  if (fits(here)) return here;
  if (key !== undefined) return before.find((one) => fits(one) && keyOf(one.node) === key);
  return before.find(fits);
}

function keyOf(node: VNode | string): string | undefined {
  return typeof node === "string" ? undefined : node.props.key;
}

function same(a: VNode | string, b: VNode | string): boolean {
  if (typeof a === "string" || typeof b === "string") return typeof a === typeof b;
  return a.tag === b.tag && a.props.key === b.props.key;
}

/** Moves only what stands in the wrong place: moving an element would take its focus and its scroll position. */
function placeInOrder(parent: Element, children: Mounted[]): void {
  let expected = parent.firstChild;
  for (const child of children) {
    if (child.dom === expected) expected = expected.nextSibling;
    else parent.insertBefore(child.dom, expected);
  }
}

function create(node: VNode | string): Mounted {
  if (typeof node === "string") return { node, dom: document.createTextNode(node), children: [], unmount: undefined };
  const dom = svgTags.has(node.tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", node.tag)
    : document.createElement(node.tag);
  const children = node.props.hosted ? [] : patchChildren(dom, [], node.children);
  applyProps(dom, {}, node.props);
  const mounted: Mounted = { node, dom, children, unmount: undefined };
  const { mount } = node.props;
  if (mount) waiting.push(() => { mounted.unmount = mount(dom as HTMLElement) ?? undefined; });
  return mounted;
}

function patch(mounted: Mounted, node: VNode | string): Mounted {
  if (typeof node === "string") {
    if (mounted.node !== node) mounted.dom.textContent = node;
    return { ...mounted, node };
  }
  const element = mounted.dom as Element;
  const before = mounted.node as VNode;
  if (before === node) return mounted;
  const children = node.props.hosted ? [] : patchChildren(element, mounted.children, node.children);
  applyProps(element, before.props, node.props);
  return { ...mounted, node, children };
}

function remove(mounted: Mounted): void {
  detach(mounted);
  mounted.dom.remove();
}

function detach(mounted: Mounted): void {
  for (const child of mounted.children) detach(child);
  mounted.unmount?.();
}

function applyProps(element: Element, before: Props, after: Props): void {
  for (const name of Object.keys(before)) if (!(name in after)) applyProp(element, name, undefined);
  for (const [name, value] of Object.entries(after)) {
    if (value !== before[name] || name === "value" || name === "checked") applyProp(element, name, value);
  }
}

function applyProp(element: Element, name: string, value: unknown): void {
  if (name === "key" || name === "mount" || name === "hosted") return;
  if (name.startsWith("on")) return applyHandler(element, name.slice(2), value);
  if (name === "style") return applyStyle(element as HTMLElement, value as Record<string, string> | undefined);
  if (name === "value" || name === "checked") return applyLive(element, name, value);
  if (value === undefined || value === null || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** `value` and `checked` are what a person sees now, not what the markup once said. */
function applyLive(element: Element, name: string, value: unknown): void {
  const live = element as unknown as Record<string, unknown>;
  if (live[name] !== value) live[name] = value ?? "";
}

/** Through the object model, never a style attribute: a strict Content-Security-Policy allows only this. */
function applyStyle(element: HTMLElement, style: Record<string, string> | undefined): void {
  for (const [name, value] of Object.entries(style ?? {})) element.style.setProperty(name, value);
}

/** One listener a kind of event; the handler behind it may change with every render. */
function applyHandler(element: Element, kind: string, handler: unknown): void {
  let known = handlers.get(element);
  if (!known) handlers.set(element, (known = {}));
  if (!(kind in known)) element.addEventListener(kind, (event) => handlers.get(element)?.[kind]?.(event as never));
  known[kind] = (handler ?? ((): void => undefined)) as (event: never) => void;
}
