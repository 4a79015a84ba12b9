export default function Runs() { return null; }
