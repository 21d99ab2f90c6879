-- Whose a session's record is: `mine`, `taken` by another owner, or `gone`. A record of a lower generation than the
-- caller's counts as gone: its writer had lost the session before, and has not noticed.
local function owned_by(session, owner, generation)
  local known = redis.call('HMGET', session, 'owner', 'generation')
  if not known[1] then return 'gone' end
  if known[1] == owner then return 'mine' end
  return (read_number(known[2]) or 0) < tonumber(generation) and 'gone' or 'taken'
end
