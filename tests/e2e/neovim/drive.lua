-- What somebody does with a kernel in Neovim, with its built-in client only.
-- Each step that does not come true ends Neovim with an error.

local SECONDS = tonumber(vim.env.E2E_SECONDS or '120')

local function say(text)
  io.stdout:write(text .. '\n')
end

local progress = ''
vim.api.nvim_create_autocmd('LspProgress', {
  callback = function(event)
    progress = vim.inspect(event.data.params.value)
  end,
})

local function fail(text)
  local said = { 'FAILED: ' .. text, vim.fn.execute('messages'), 'progress: ' .. progress }
  io.stderr:write(table.concat(said, '\n') .. '\n')
  vim.cmd('cquit 1')
end

local function await(what, condition)
  local found
  vim.wait(SECONDS * 1000, function()
    found = condition()
    return found
  end, 50)
  if not found then
    fail(what)
  end
  say('ok: ' .. what)
  return found
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
end

local function errors()
  return vim.diagnostic.get(0, { severity = vim.diagnostic.severity.ERROR })
end

-- The questions of the server, answered as a user would.
local questions, answer = {}, nil
vim.ui.select = function(items, options, choose)
  table.insert(questions, options.prompt or '')
  for number, item in ipairs(items) do
    if (item.title or item) == answer then
      return choose(item, number)
    end
  end
  choose(nil, nil)
end
vim.fn.inputlist = function(lines)
  table.insert(questions, lines[1])
  for number, line in ipairs(lines) do
    if line:match('^%d+%. (.*)$') == answer then
      return number - 2
    end
  end
  return 0
end

local function run()
  vim.lsp.config('accelopt', { settings = { accelopt = { optimize = { budgetSeconds = 15 } } } })
  vim.cmd.edit('weigh.py')
  vim.bo.filetype = 'python'
  await('the client starts', function()
    return vim.lsp.get_clients({ name = 'accelopt', bufnr = 0 })[1]
  end)

  await('inlay hints are shown', function()
    return #vim.lsp.inlay_hint.get({ bufnr = 0 }) > 0
  end)
  vim.cmd.doautocmd('InsertLeave')
  await('a code lens has the latency', function()
    for _, lens in ipairs(vim.lsp.codelens.get(0)) do
      if lens.command and lens.command.title:find('[mµ]s') then
        return true
      end
    end
  end)

  if #errors() > 0 then
    fail('a kernel that is right has errors')
  end
  local last = vim.api.nvim_buf_line_count(0)
  vim.api.nvim_buf_set_lines(0, last - 1, last - 1, false, { '    whole = nl.load(x)' })
  await('a tile over 256 partitions is an error at its line', function()
    local found = errors()[1]
    return found and found.lnum == last - 1
  end)
  vim.api.nvim_buf_set_lines(0, last - 1, last, false, {})
  await('the error goes with its line', function()
    return #errors() == 0
  end)

  local row = vim.fn.search('nl.load', 'w')
  vim.api.nvim_win_set_cursor(0, { row, vim.fn.getline(row):find('load') - 1 })
  vim.lsp.buf.hover()
  await('hover tells of nl.load', function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= '' then
        local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
        return table.concat(lines, '\n'):find('nl.load', 1, true)
      end
    end
  end)

  local before = text()
  answer = 'Apply'
  vim.lsp.buf.code_action({
    apply = true,
    filter = function(action)
      return action.title == 'Optimize kernel weigh'
    end,
  })
  await('the result of the run is offered', function()
    return #questions > 0
  end)
  if not questions[#questions]:find('faster') then
    fail('the question has no evidence: ' .. questions[#questions])
  end
  await('the result is applied', function()
    return text() ~= before
  end)
  await('the changed kernel is analysed without errors', function()
    return #errors() == 0 and #vim.lsp.inlay_hint.get({ bufnr = 0 }) > 0
  end)
  vim.cmd.undo()
  if text() ~= before then
    fail('one undo does not take the result back')
  end
  say('ok: one undo takes the result back')
end

vim.schedule(function()
  local fine, problem = xpcall(run, debug.traceback)
  if not fine then
    fail(problem)
  end
  vim.cmd('qall!')
end)
