// Async functions that await one another; the innermost one calls back. `make` builds it.
public typealias Look = @convention(c) (UnsafeMutableRawPointer) -> Void

@inline(never) func crunch(_ look: Look, _ with: UnsafeMutableRawPointer) -> Int {
    look(with)
    return 3
}

@inline(never) func fetch(_ look: Look, _ with: UnsafeMutableRawPointer) async -> Int {
    crunch(look, with) + 1
}

@inline(never) func refresh(_ look: Look, _ with: UnsafeMutableRawPointer) async -> Int {
    let first = await fetch(look, with)
    return await fetch(look, with) + first
}

@inline(never) public func open(_ look: Look, _ with: UnsafeMutableRawPointer) async -> Int {
    await refresh(look, with) + 2
}
